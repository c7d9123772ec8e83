/** CPU seconds of the emulator's two engines for the same launches. */
import { markdownTable } from './markdown.ts';
import { foldersWith, jsonOf } from './results.ts';

export interface EngineTimes {
  kernel: string;
  /** CPU seconds. */
  fibres: number;
  ptx: number;
  /** Largest difference between outputs of the two engines. */
  furthestApart: number;
}

interface Report {
  processor: string;
  rounds: number;
  times: EngineTimes[];
}

/** For docs/emulator.md, from the newest run of `npm run engines`. */
export function engineTimesMarkdown(): string {
  const folder = foldersWith(/^engines\.json$/).findLast((name) => name.startsWith('emulator-'));
  if (folder === undefined) return 'Not measured yet.\n';
  const { processor, rounds, times } = jsonOf<Report>(folder, 'engines.json')!;
  const rows = times.map(({ kernel, fibres, ptx }) => [
    kernel,
    fibres.toFixed(2),
    ptx.toFixed(2),
    `${(fibres / ptx).toFixed(1)}x`,
  ]);
  return [
    `One thread on a shared ${processor}, the least of ${rounds} rounds (docs/results/${folder}/engines.json):\n`,
    markdownTable(['kernel', 'fibres', 'ptx', 'ptx is'], rows),
  ].join('\n');
}
