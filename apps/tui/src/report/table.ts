import type { ReportFormat, StyleName } from './format.ts';
import { printable, truncate } from './text.ts';

export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
  /** This column gives way when the table is wider than the page; one a table. */
  readonly shrinks?: boolean;
}

export type Cell = string | { readonly text: string; readonly style?: StyleName };

const INDENT = '  ';
const GAP = '  ';
const NARROWEST_SHRUNK = 8;

/**
 * A table with a dim head; columns are as wide as their widest cell, the one that shrinks takes what is left, or all it
 * needs where nothing may be cut.
 */
export function table(columns: readonly Column[], rows: readonly (readonly Cell[])[], format: ReportFormat): string[] {
  const widths = columnWidths(columns, rows, format.uncut ? Infinity : format.width);
  const line = (cells: readonly Cell[], style?: StyleName) =>
    (
      INDENT + columns.map((column, i) => cell(cells[i] ?? '', widths[i] ?? 0, column, style, format)).join(GAP)
    ).trimEnd();
  return [
    line(
      columns.map((column) => column.title),
      'dim',
    ),
    ...rows.map((row) => line(row)),
  ];
}

function columnWidths(columns: readonly Column[], rows: readonly (readonly Cell[])[], pageWidth: number): number[] {
  const widths = columns.map((column, i) =>
    Math.max(column.title.length, ...rows.map((row) => textOf(row[i] ?? '').length)),
  );
  const total = INDENT.length + widths.reduce((sum, width) => sum + width, 0) + GAP.length * (columns.length - 1);
  const shrinking = columns.findIndex((column) => column.shrinks);
  const width = widths[shrinking];
  if (width !== undefined && total > pageWidth)
    widths[shrinking] = Math.max(NARROWEST_SHRUNK, width - (total - pageWidth));
  return widths;
}

function cell(
  value: Cell,
  width: number,
  column: Column,
  headStyle: StyleName | undefined,
  format: ReportFormat,
): string {
  const text = truncate(textOf(value), width, format);
  const style = headStyle ?? (typeof value === 'string' ? undefined : value.style);
  const padding = ' '.repeat(Math.max(0, width - text.length));
  const styled = style ? format.style(style, text) : text;
  return column.align === 'right' ? padding + styled : styled + padding;
}

const textOf = (value: Cell): string => printable(typeof value === 'string' ? value : value.text);
