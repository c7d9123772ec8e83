/** A screen row as styled runs, independent of any terminal. Every view and plot returns rows. */
import type { Piece, Role } from '../roles.ts';
import { cellWidth, padCells, takeCells, wrapCells } from './cell-text.ts';

export interface Run extends Piece {
  /** Background of a heat-map cell, 0 (no error) to HEAT_LEVELS - 1. */
  readonly heat?: number;
  /** True if the text only shows the heat level, because the screen has no background color for it. */
  readonly isInk?: boolean;
  /** The row under the cursor. */
  readonly selected?: boolean;
}

export type { Role };
export type Row = readonly Run[];

/** Number of colors of a heat map. It is small so that neighboring cells often share an escape sequence. */
export const HEAT_LEVELS = 32;

export const run = (text: string, role?: Role): Run => (role === undefined ? { text } : { text, role });
export const textRow = (text: string, role?: Role): Row => [run(text, role)];
export const BLANK_ROW: Row = [];

export function rowWidth(row: Row): number {
  return row.reduce((cells, { text }) => cells + cellWidth(text), 0);
}

export const rowText = (row: Row): string => row.map(({ text }) => text).join('');

/** Exactly `width` cells: padded with spaces, or cut with "…" at the last visible cell. */
export function fitRow(row: Row, width: number): Row {
  const cells = rowWidth(row);
  if (cells === width) return row;
  if (cells < width) return [...row, { ...styleOf(row.at(-1)), text: ' '.repeat(width - cells) }];
  const fitted: Run[] = [];
  let left = width;
  for (const piece of row) {
    const pieceCells = cellWidth(piece.text);
    // The cut needs one cell for "…", unless this piece fits exactly and is the last.
    if (pieceCells < left) {
      fitted.push(piece);
      left -= pieceCells;
      continue;
    }
    fitted.push({ ...piece, text: padCells(`${takeCells(piece.text, left - 1)}…`, left) });
    break;
  }
  return fitted;
}

// Padding after a selected row is also selected; other styles do not extend into the padding.
const styleOf = (last: Run | undefined): Partial<Run> => (last?.selected ? { selected: true } : {});

/** Marks the whole row under the cursor, including padding. */
export function selectRow(row: Row, width: number): Row {
  return fitRow(row, width).map((piece) => ({ ...piece, selected: true }));
}

interface WrapOptions {
  role?: Role;
  indent?: number;
  hang?: number;
}

/** Text in as many rows as it needs; rows after the first are indented by `hang` cells. */
export function wrapRows(text: string, width: number, { role, indent = 0, hang = indent }: WrapOptions = {}): Row[] {
  const [first = '', ...rest] = wrapCells(text, width - indent);
  const following = hang === indent ? rest : wrapCells(rest.join(' '), width - hang);
  const lines = rest.length === 0 ? [] : following;
  return [
    [run(' '.repeat(indent)), run(first, role)],
    ...lines.map((line): Row => [run(' '.repeat(hang)), run(line, role)]),
  ];
}

/** The first `height` rows of a text; "…" after the last whole word says that there is more. */
export function firstRows(rows: readonly Row[], height: number, width: number): readonly Row[] {
  if (rows.length <= height || height < 1) return rows.slice(0, Math.max(0, height));
  const last = rows[height - 1] ?? [];
  const text = rowText(last);
  const kept = cellWidth(text) <= width - 2 ? text.trimEnd() : takeCells(text, width - 2).replace(/\s+\S*$/, '');
  const role = last.at(-1)?.role;
  return [...rows.slice(0, height - 1), [run(`${kept} …`, role)]];
}

interface Window {
  from: number;
  to: number;
  count: number;
  height: number;
}

/** The window of `height` rows around the rows `from` to `to` (exclusive), centered as far as the ends allow. */
export function windowStart({ from, to, count, height }: Window): number {
  const middle = Math.floor((from + Math.min(to, from + height)) / 2) - Math.floor(height / 2);
  return Math.max(0, Math.min(middle, count - height));
}

/** A label and its value, with the label dimmed: "p50  12.3 us". */
export const labelled = (label: string, value: string, role?: Role): Run[] => [
  run(`${label} `, 'dim'),
  run(value, role),
];

/**
 * Puts as many groups into a row as fit, `gap` cells apart, and continues in the next row. A group that is wider than a
 * row wraps.
 */
export function flowRows(groups: readonly Row[], width: number, gap = 2): Row[] {
  const rows: Run[][] = [];
  for (const group of groups) {
    const last = rows.at(-1);
    if (rowWidth(group) > width) rows.push(...wrapRows(rowText(group), width, { hang: 2 }).map((row) => [...row]));
    else if (last !== undefined && rowWidth(last) + gap + rowWidth(group) <= width)
      last.push(run(' '.repeat(gap)), ...group);
    else rows.push([...group]);
  }
  return rows;
}
