/** README.md of a folder with measurements of tried ideas: copies of a kernel with one change each. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatShape } from '@flashcore/shared/kernels';
import { fixed, notedTable, validity } from './markdown.ts';
import { experimentsOf, RESULTS, rowsOf } from './results.ts';

export function triedPage(folder: string): string {
  const rows = rowsOf(folder, /^bench\..*\.json$/).toSorted((a, b) => a.kernel.localeCompare(b.kernel));
  const { device, protocol } = experimentsOf(folder, /^bench\..*\.json$/)[0]!.result!.provenance!;
  const shapes = new Set(rows.map(({ benchmark }) => formatShape(benchmark.shape!)));
  return [
    `# Tried on ${device!.name}\n`,
    `Copies of a kernel with one change each, hot at ${[...shapes].join(', ')}, ${protocol}${timeLimit(folder)}: figures for the kernels' \`notes\`, which say what was changed; not for a leaderboard. The commands are in commands.txt.\n`,
    notedTable(
      ['copy', 'hot p50 us', '95 % interval', 'registers', 'spills B', 'CTAs/SM', 'output'],
      rows.map(({ kernel, variant, benchmark }) => {
        const { latency, outputCheck } = benchmark;
        const [entry] = variant.build!.entries;
        return {
          note: validity(benchmark),
          cells: [
            kernel,
            fixed(latency!.p50Us, 2),
            `${fixed(latency!.p50LowUs, 2)} to ${fixed(latency!.p50HighUs, 2)}`,
            String(entry!.registersPerThread),
            String(entry!.spillStoreBytes + entry!.spillLoadBytes),
            String(entry!.ctasPerSm),
            outputCheck,
          ],
        };
      }),
    ),
  ].join('\n');
}

/** The limit given in the recorded commands. */
function timeLimit(folder: string): string {
  const path = join(RESULTS, folder, 'commands.txt');
  const seconds = existsSync(path)
    ? [...new Set([...readFileSync(path, 'utf8').matchAll(/--max-seconds ([\d.]+)/g)].map(([, text]) => text!))]
    : [];
  return seconds.length > 0 ? `, ended after ${seconds.join(' or ')} s` : '';
}
