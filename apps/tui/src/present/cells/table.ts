/**
 * Tables that fit. Columns for which there is no room are dropped by rank or shortened where that is allowed, never
 * clipped by accident.
 */
import type { Column } from '../blocks.ts';
import { colouredParts } from '../roles.ts';
import { cellWidth, padCells } from './cell-text.ts';
import { run, rowWidth, type Row, type Run } from './row.ts';

export type { Column };

export interface Table {
  readonly header: Row;
  readonly rows: Row[];
  readonly titles: string[];
}

const GAP = 2;
// As a last resort, every column is cut down to this width.
const LEAST_CELLS = 4;

/** Lays out `items` in at most `width` cells. */
export function table<Item>(columns: readonly Column<Item>[], items: readonly Item[], width: number): Table {
  const cells = columns.map((column) => ({ column, runs: items.map((item) => asRun(column.cell(item))) }));
  const natural = cells.map(({ column, runs }) => ({
    column,
    runs,
    width: column.cells ?? Math.max(cellWidth(column.title), ...runs.map(({ text }) => cellWidth(text))),
  }));
  const fitted = fitColumns(natural, width);
  return {
    header: joinCells(
      fitted.map(({ column, width: cellsWide }) => run(padCells(column.title, cellsWide, column.align), 'dim')),
    ),
    rows: items.map((_, index) =>
      joinCells(
        fitted.map(({ column, runs, width: cellsWide }) => {
          const piece = runs[index] ?? run('');
          return { ...piece, text: padCells(piece.text, cellsWide, column.align) };
        }),
      ),
    ),
    titles: fitted.map(({ column }) => column.title),
  };
}

interface Laid<Item> {
  readonly column: Column<Item>;
  readonly runs: readonly Run[];
  readonly width: number;
}

// Shrinking comes before dropping because a shortened label says more than a missing column, unless that column has no
// value anyway.
function fitColumns<Item>(columns: readonly Laid<Item>[], width: number): Laid<Item>[] {
  const empty = totalWidth(columns) > width ? columns.find((laid) => dropRank(laid) > EMPTY_FIRST) : undefined;
  if (empty !== undefined)
    return fitColumns(
      columns.filter((laid) => laid !== empty),
      width,
    );
  const shrunk = shrink(columns, width);
  if (totalWidth(shrunk) <= width) return shrunk;
  const victim = columns.reduce<Laid<Item> | undefined>(
    (worst, laid) => (dropRank(laid) > (worst === undefined ? 0 : dropRank(worst)) ? laid : worst),
    undefined,
  );
  if (victim !== undefined)
    return fitColumns(
      columns.filter((laid) => laid !== victim),
      width,
    );
  // Names are shortened first, because a figure without its last digits is useless.
  const names = shrink(shrunk, width, ({ shrinkTo }) => (shrinkTo === undefined ? undefined : LEAST_CELLS));
  const others = shrink(names, width, ({ cutLast }) => (cutLast ? undefined : LEAST_CELLS));
  return totalWidth(others) <= width ? others : shrink(others, width, () => LEAST_CELLS);
}

const EMPTY_FIRST = 1000;

/** Columns with the highest rank are dropped first: those without any value, then by their own rank; 0: never. */
function dropRank<Item>({ column: { drop = 0 }, runs }: Laid<Item>): number {
  const isEmpty = runs.length > 0 && runs.every(({ text }) => text === '' || text === '-');
  return drop > 0 && isEmpty ? drop + EMPTY_FIRST : drop;
}

type LeastOf = <Item>(column: Column<Item>) => number | undefined;

function shrink<Item>(
  columns: readonly Laid<Item>[],
  width: number,
  leastOf: LeastOf = ({ shrinkTo }) => shrinkTo,
): Laid<Item>[] {
  let excess = totalWidth(columns) - width;
  // Cuts columns from right to left, because names are on the left and remarks on the right.
  return columns.reduceRight<Laid<Item>[]>((laidOut, laid) => {
    const least = leastOf(laid.column);
    const cut = least === undefined ? 0 : Math.max(0, Math.min(excess, laid.width - least));
    excess -= cut;
    return [{ ...laid, width: laid.width - cut }, ...laidOut];
  }, []);
}

const totalWidth = (columns: readonly { width: number }[]): number =>
  columns.reduce((sum, { width }) => sum + width, 0) + GAP * Math.max(0, columns.length - 1);

const asRun = (cell: string | Run): Run => (typeof cell === 'string' ? run(cell) : cell);

function joinCells(cells: readonly Run[]): Row {
  return cells.flatMap((cell, index) => {
    const runs = cell.isMarked ? colouredParts(cell) : [cell];
    return index === 0 ? runs : [run(' '.repeat(GAP)), ...runs];
  });
}

export interface Part {
  /** Parts get their places in this order, the lowest rank first. */
  readonly rank: number;
  /** Parts grow to a longer form in this order once all have their places; absent: by rank. */
  readonly growRank?: number;
  /** In place of `growRank`, one for each form, if a longer form matters less than the growth of other parts. */
  readonly formRanks?: readonly number[];
  /** The longest form first. */
  readonly forms: readonly Row[];
}

/** Keeps the parts with the lowest ranks that fit into `width`, in their given order, `gap` cells apart. */
export function fitParts(parts: readonly Part[], width: number, gap = 2): Row {
  const chosen = new Map<number, Row>();
  let left = width;
  const byRank = parts.map((part, index) => ({ ...part, index })).sort((a, b) => a.rank - b.rank);
  // First places the shortest form of each part, so that a long form never displaces another part. Longer forms then
  // use the remaining room.
  for (const { forms, index } of byRank) {
    const shortest = forms.at(-1);
    if (shortest === undefined || rowWidth(shortest) === 0) continue;
    const cost = rowWidth(shortest) + (chosen.size > 0 ? gap : 0);
    if (cost > left) continue;
    chosen.set(index, shortest);
    left -= cost;
  }
  const growing = byRank.flatMap((part) =>
    (part.formRanks ?? [part.growRank ?? part.rank]).map((at, form) => ({
      forms: part.forms.slice(form),
      index: part.index,
      at,
    })),
  );
  for (const { forms, index } of growing.toSorted((a, b) => a.at - b.at)) {
    const now = chosen.get(index);
    if (now === undefined) continue;
    const better = forms.find((form) => rowWidth(form) - rowWidth(now) <= left);
    if (better === undefined) continue;
    left -= rowWidth(better) - rowWidth(now);
    chosen.set(index, better);
  }
  return [...chosen.entries()]
    .sort(([a], [b]) => a - b)
    .flatMap(([, row], position) => (position === 0 ? [...row] : [run(' '.repeat(gap)), ...row]));
}
