/** Horizontal bars: a progress bar in eighths of a cell, and labelled bars for counters. */
import { padCells } from './cell-text.ts';
import { run, type Row, type Run } from './row.ts';

const PARTS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/** A bar of exactly `width` cells for `share` in 0..1. */
export function bar(share: number, width: number): string {
  const eighths = Math.round(Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0)) * width * 8);
  const text = '█'.repeat(Math.floor(eighths / 8)) + (PARTS[eighths % 8] ?? '');
  return text + ' '.repeat(width - text.length);
}

/** A bar between two marks that show its full length. */
export const progressBar = (share: number, width: number): Run[] => [
  run('▕', 'border'),
  run(bar(share, width - 2), 'bar'),
  run('▏', 'border'),
];

interface LabelledValue {
  label: string;
  value: number;
  text: string;
}

/** One row per value, bars from a common start; `full` is the value of a full bar. */
export function labelledBars(
  values: readonly LabelledValue[],
  { width, full }: { width: number; full: number },
): Row[] {
  const labelCells = Math.min(Math.floor(width / 2), Math.max(0, ...values.map(({ label }) => label.length)));
  const textCells = Math.max(0, ...values.map(({ text }) => text.length));
  const barCells = Math.max(1, width - labelCells - textCells - 2);
  return values.map(({ label, value, text }): Row => [
    run(padCells(label, labelCells)),
    run(' '),
    run(bar(value / full, barCells), 'bar'),
    run(' '),
    run(padCells(text, textCells, 'right')),
  ]);
}

/** Samples in order as block heights; a dropped sample (0) is a "×". */
export function sampleStrip(samples: readonly number[], width: number): Run[] {
  const shown = samples.slice(-width);
  const kept = shown.filter((sample) => sample > 0);
  const [least, most] = [Math.min(...kept), Math.max(...kept)];
  const block = (sample: number): string =>
    LEVELS[most === least ? 3 : Math.round(((sample - least) / (most - least)) * (LEVELS.length - 1))] ?? ' ';
  return shown.reduce<Run[]>((runs, sample) => {
    const [text, role] = sample > 0 ? [block(sample), 'bar' as const] : ['×', 'bad' as const];
    const last = runs.at(-1);
    return last?.role === role ? [...runs.slice(0, -1), run(last.text + text, role)] : [...runs, run(text, role)];
  }, []);
}

const LEVELS = '▁▂▃▄▅▆▇█';

/** The last `width` values as block heights between their minimum and maximum. */
export function sparkline(values: readonly number[], width: number): string {
  const shown = values.slice(-width);
  const [least, most] = [Math.min(...shown), Math.max(...shown)];
  return shown
    .map(
      (value) =>
        LEVELS[most === least ? 3 : Math.round(((value - least) / (most - least)) * (LEVELS.length - 1))] ?? ' ',
    )
    .join('');
}
