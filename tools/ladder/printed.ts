/**
 * What measure_gpu_host.py printed of a run whose JSON files were lost with the machine: the host was taken back when its time was up, before they were copied. Its lines hold
 * every median with its interval and all baselines; what they do not hold (raw samples, percentiles, provenance) is gone, and no table pretends to have it.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { attentionFlops, parseShape } from '@flashcore/shared';
import { fixed, markdownTable } from './markdown.ts';
import { foldersWith, RESULTS } from './results.ts';

const FILE = 'printed.txt';

/** One kernel on one shape in one timing mode. */
export interface PrintedRow {
  shape: string;
  kernel: string;
  mode: 'cold' | 'hot';
  p50Us: number;
  interval: readonly [number, number];
  samples: number;
  dropped: number;
  /** Why it stands in no leaderboard; empty: it may. */
  invalid: string;
  baselines: readonly { name: string; speedup: number; interval: readonly [number, number] }[];
}

export const printedFolder = (): string | undefined => foldersWith(/^printed\.txt$/).at(-1);

const COMMAND = /^\[ *[\d.]+ s\] exit \d+ +\S+ bench (\S+) /;
const LATENCY = /^ {4}(COLD|HOT) +p50 ([\d.]+) \[([\d.]+) ([\d.]+)\] n=(\d+) dropped=(\d+) \S+ valid=(?:True|False (.*?)) +empty=/;
const BASELINE = /(\S+) [\d.]+ n=\d+ x([\d.]+) \[([\d.]+) ([\d.]+)\]/g;

/** `bench` runs only: shapes in the command's order, each cold and then hot. Errors: a line of a kind that is not known. */
export function printedRows(text: string): PrintedRow[] {
  const rows: PrintedRow[] = [];
  let kernel = '';
  let waiting: { shape: string; mode: PrintedRow['mode'] }[] = [];
  const lines = text.split('\n');
  for (const [index, line] of lines.entries()) {
    const command = COMMAND.exec(line);
    if (command || line.startsWith('[')) {
      if (waiting.length > 0) throw new Error(`Wanted ${waiting.length} more measurements of ${kernel}, found line ${index + 1}: ${line.slice(0, 80)}`);
      kernel = command?.[1] ?? '';
      waiting = command ? [...line.matchAll(/--shape (\S+)/g)].flatMap(([, shape]) => [{ shape: shape!, mode: 'cold' as const }, { shape: shape!, mode: 'hot' as const }]) : [];
    }
    const latency = kernel === '' ? null : LATENCY.exec(line);
    if (!latency) continue;
    const [, mode, p50, low, high, samples, dropped, invalid = ''] = latency;
    const next = waiting.shift();
    if (next?.mode !== mode!.toLowerCase()) throw new Error(`Wanted ${next ? `${next.shape} ${next.mode}` : 'no further measurement'}, found line ${index + 1}: ${line.slice(0, 80)}`);
    const baselines = [...(lines[index + 1] ?? '').matchAll(BASELINE)].map(([, name, speedup, from, to]) => ({ name: name!, speedup: Number(speedup), interval: [Number(from), Number(to)] as const }));
    rows.push({ ...next, kernel, p50Us: Number(p50), interval: [Number(low), Number(high)], samples: Number(samples), dropped: Number(dropped), invalid, baselines });
  }
  return rows;
}

export const readPrinted = (folder: string): PrintedRow[] => printedRows(readFileSync(join(RESULTS, folder, FILE), 'utf8'));

/** README.md of such a folder. */
export function printedPage(folder: string): string {
  const commands = readFileSync(join(RESULTS, folder, 'commands.txt'), 'utf8').trimEnd();
  return `# ${folder}: as it was printed\n\nThe machine's time was up before this run's JSON files were copied from it; [${FILE}](${FILE}) is what the program printed until then, without provenance and raw samples.\n\n\`\`\`\n${commands}\n\`\`\`\n\n${printedTable(readPrinted(folder))}`;
}

/** Every row with the interval of its ratio to the fastest SDPA backend. */
export function printedTable(rows: readonly PrintedRow[]): string {
  const backends = [...new Set(rows.flatMap(({ baselines }) => baselines.map(({ name }) => name)))].sort();
  const order = [...new Set(rows.map(({ shape }) => shape))];
  return markdownTable(['shape', 'kernel', '', 'p50 us', '95 % interval', 'TFLOP/s', ...backends.map((name) => `x ${name}`), 'x the fastest, 95 % interval', 'samples', 'note'], rows
    .toSorted((a, b) => order.indexOf(a.shape) - order.indexOf(b.shape) || a.kernel.localeCompare(b.kernel))
    .map(({ shape, kernel, mode, p50Us, interval, samples, dropped, invalid, baselines }) => {
      const fastest = baselines.toSorted((a, b) => a.speedup - b.speedup)[0];
      return [shape, kernel, mode, fixed(p50Us, 2), interval.map((us) => fixed(us, 2)).join(' to '), fixed(attentionFlops(parseShape(shape)) / p50Us / 1e6, 1),
        ...backends.map((name) => fixed(baselines.find((each) => each.name === name)?.speedup, 2)), fastest ? fastest.interval.map((ratio) => fixed(ratio, 3)).join(' to ') : '-',
        `${samples}${dropped > 0 ? ` (${dropped} dropped)` : ''}`, invalid === '' ? '' : `not valid: ${invalid}`];
    }));
}

export const hasPrinted = (folder: string): boolean => existsSync(join(RESULTS, folder, FILE));
