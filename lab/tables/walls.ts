/** How many seconds a user waits for the emulator. */
import { markdownTable } from './markdown.ts';
import { foldersWith, jsonOf } from './results.ts';

export interface Wall {
  what: string;
  engine: 'fibres' | 'ptx';
  /** For each round, the seconds from the start of the command to its end. */
  seconds: number[];
  /** For each round, the part of the seconds that the job's verification took. */
  verifySeconds: number[];
  /** The goal in seconds. */
  wanted: number;
}

export interface Walls {
  command: string;
  measuredAt: string;
  processor: string;
  cores: number;
  /** The load average over one minute before the measurement began. */
  load: number;
  /** The tools that the runner compiles and runs with, as it reported them. */
  tools: string[];
  walls: Wall[];
}

/** A table for docs/emulator.md, from the newest run of `npm run walls`. */
export function wallsMarkdown(): string {
  const folder = foldersWith(/^walls\.json$/).findLast((name) => name.startsWith('emulator-'));
  if (folder === undefined) return 'Not measured yet.\n';
  const { processor, cores, load, walls } = jsonOf<Walls>(folder, 'walls.json')!;
  const rows = walls.map(({ what, engine, seconds, verifySeconds, wanted }) => [
    what,
    engine,
    spread(seconds),
    spread(verifySeconds),
    `${wanted}`,
  ]);
  return [
    `Medians in seconds (least to most) on ${cores} cores of an ${processor}, a load of ${load.toFixed(1)} when it began (lab/results/${folder}/walls.json):\n`,
    markdownTable(['command', 'engine', 'from command to verdict', 'its verification', 'wanted'], rows),
  ].join('\n');
}

function spread(seconds: readonly number[]): string {
  const sorted = seconds.toSorted((a, b) => a - b);
  const middle = sorted[Math.floor(sorted.length / 2)];
  if (middle === undefined) return 'not measured';
  return sorted.length === 1
    ? middle.toFixed(1)
    : `${middle.toFixed(1)} (${sorted[0]!.toFixed(1)} to ${sorted.at(-1)!.toFixed(1)})`;
}
