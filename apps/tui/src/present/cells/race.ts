/** A search as a curve: the best value after each trial, and a dot for every trial that has a value. */
import type { Drawing } from '../blocks.ts';
import { formatNumber } from '../numbers.ts';
import { Canvas } from './canvas.ts';
import { padCells } from './cell-text.ts';
import { run, type Row } from './row.ts';

/** Exactly `height` rows of `width` cells: the curve, and the numbers of the first and the last trial. */
export function raceRows(
  { best, trials }: Drawing & { type: 'race' },
  { width, height }: { readonly width: number; readonly height: number },
): Row[] {
  const values = [...best, ...trials.map(({ value }) => value)];
  if (values.length === 0) return [];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const last = Math.max(1, best.length - 1);
  const canvas = new Canvas({ width, height: height - 1 });
  const columnOf = (trial: number): number => Math.round((trial / last) * (canvas.dotColumns - 1));
  const rowOf = (value: number): number =>
    Math.round((1 - (value - low) / Math.max(high - low, Number.EPSILON)) * (canvas.dotRows - 1));
  best.forEach((value, trial) => {
    if (trial === 0) return;
    const before = best[trial - 1] ?? value;
    canvas.line([columnOf(trial - 1), rowOf(before)], [columnOf(trial), rowOf(before)], 'bar');
    canvas.line([columnOf(trial), rowOf(before)], [columnOf(trial), rowOf(value)], 'bar');
  });
  for (const { trial, value, good } of trials)
    canvas.text(Math.floor(columnOf(trial) / 2), Math.floor(rowOf(value) / 4), good ? '◆' : '·', {
      role: good ? 'good' : 'dim',
    });
  canvas.text(0, 0, `${formatNumber(high)} x`, { role: 'dim', gently: true });
  const end = `trial ${best.length - 1}`;
  return [...canvas.rows(), [run(padCells(`0${end.padStart(width - 1)}`, width), 'dim')]];
}
