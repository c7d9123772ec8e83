/** A view is a pure function from a snapshot and a size to a pane's rows. */
import type { Row } from '../../present/cells/row.ts';
import { fitRow, run } from '../../present/cells/row.ts';
import type { Snapshot } from '../../state/log-search.ts';

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface PaneContent {
  readonly title: string;
  /** Shown at the lower border. */
  readonly remark?: string;
  /** Badge for a copy of the pane. On the screen it is in the header instead. */
  readonly badge?: string;
  /** At most size.height rows of at most size.width cells. */
  readonly body: readonly Row[];
}

export type View = (snapshot: Snapshot, size: Size) => PaneContent;

export const SIMULATED_BADGE = 'SIMULATED';

/** Two blocks of rows next to each other, the left one `leftWidth` cells wide. */
export function beside(
  left: readonly Row[],
  right: readonly Row[],
  { leftWidth, gap = 2 }: { leftWidth: number; gap?: number },
): Row[] {
  return Array.from({ length: Math.max(left.length, right.length) }, (_, index) => [
    ...fitRow(left[index] ?? [], leftWidth),
    run(' '.repeat(gap)),
    ...(right[index] ?? []),
  ]);
}

/** A pane that shows `height` of `rows` from `top` on, and a remark if there are more. */
export function scrolled(title: string, rows: readonly Row[], { height, top }: Size & { top: number }): PaneContent {
  const start = Math.max(0, Math.min(top, rows.length - height));
  const remark = rows.length > height ? { remark: `rows ${start + 1}-${start + height} of ${rows.length}` } : {};
  return { title, ...remark, body: rows.slice(start, start + height) };
}

/**
 * A page of `rows` in `height`. If there are several pages, the last row gives the page number and the key for the next
 * one.
 */
export function pageOf(rows: readonly Row[], { height, page }: { height: number; page: number }): Row[] {
  if (rows.length <= height || height < 2) return rows.slice(0, height);
  const perPage = height - 1;
  const pages = Math.ceil(rows.length / perPage);
  const shown = ((page % pages) + pages) % pages;
  const body = rows.slice(shown * perPage, (shown + 1) * perPage);
  return [
    ...body,
    ...Array.from({ length: perPage - body.length }, (): Row => []),
    [run(`page ${shown + 1} of ${pages}, J: ${shown + 1 === pages ? 'first' : 'next'}`, 'key')],
  ];
}

/** Text such as "3 of 7 cases". */
export const positionRemark = (selected: number, count: number, noun: string): string =>
  count === 0 ? `no ${noun}s` : `${selected + 1} of ${count} ${noun}${count === 1 ? '' : 's'}`;
