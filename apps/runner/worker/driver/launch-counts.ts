import type { LaunchCounts } from '../messages/profiling.ts';

/** Checks counts from the executor: only names and numbers are accepted. */
export function launchCounts(json: unknown): LaunchCounts[] {
  if (!Array.isArray(json)) throw new TypeError('wanted an array of launches');
  return json.map((launch: unknown) => {
    const { entry, blocks, counts, lines } = record(launch);
    if (typeof entry !== 'string' || typeof blocks !== 'number') throw new TypeError('wanted a launch with its entry');
    return {
      entry,
      blocks,
      counts: numbers(counts),
      lines: Object.fromEntries(Object.entries(record(lines)).map(([place, sums]) => [place, numbers(sums)])),
    };
  });
}

function record(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TypeError('wanted an object');
  return value as Record<string, unknown>;
}

function numbers(value: unknown): Record<string, number> {
  return Object.fromEntries(
    Object.entries(record(value)).map(([name, count]) => {
      if (typeof count !== 'number') throw new TypeError(`wanted a number of ${name}`);
      return [name, count];
    }),
  );
}
