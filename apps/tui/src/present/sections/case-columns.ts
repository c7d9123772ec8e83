/**
 * The first columns of a table of cases. Plain attention has its short form, such as "2x8x512x64c". For other problems,
 * each axis or attribute that differs among the rows has a column, and sharedText() returns the values that all rows
 * share.
 */
import type { Shape } from '@flashcore/shared/contract';
import { formatShape, valuesOf } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { notice, type Block, type Column } from '../blocks.ts';
import { cellWidth } from '../cells/cell-text.ts';
import { piece } from '../roles.ts';
import { caseText } from '../words.ts';

interface CaseOf<Item> {
  readonly shape: (item: Item) => Shape | undefined;
  /** Words that tell rows of the same case apart, such as "probe". */
  readonly remark?: (item: Item) => string;
  /** Cells of the whole table; absent for a report. */
  readonly width?: number | undefined;
}

const LEAST_NAME_CELLS = 16;
const LEAST_TEXT_CELLS = 20;
/** These axes come first, even if only some of the cases give them. */
const FIRST = ['B', 'H', 'S', 'D'];
/** Cells between two columns of a table. */
const GAP = 2;
/** Cells for the other columns of a table: a verdict, the largest error, its share of the limit, and mismatches. */
const FIGURE_CELLS = 45;
/** The width of a report in a terminal. */
const REPORT_CELLS = 100;
/**
 * Drop rank of the name, which is dropped after the less important errors, because the details of a row also contain
 * the name.
 */
const NAME_DROP = 0.3;
/**
 * Drop rank of an axis that only some cases have, such as Hkv of probes. Such an axis is dropped after the name and
 * before the error's share of the limit. The fewer cases have the axis, the higher is the rank.
 */
const RARE_AXIS_DROP = 0.25;
const RARE_AXIS_DROP_RANGE = 0.04;

/** The first columns of a table of `items`. */
export function caseColumns<Item>(items: readonly Item[], { shape, remark, width }: CaseOf<Item>): Column<Item>[] {
  const shapes = items.map(shape);
  const axes = axesApart(shapes, width);
  if (axes === undefined) {
    const text = (item: Item): string => joined(caseText(shape(item)), remark?.(item));
    return [{ title: 'case', cell: text, ...(!areShort(shapes) && { shrinkTo: LEAST_TEXT_CELLS }) }];
  }
  const name = (item: Item): string => (axes.length > 0 ? (shape(item)?.name ?? '') : '');
  const named: Column<Item> = { title: 'case', shrinkTo: LEAST_NAME_CELLS, drop: NAME_DROP, cell: name };
  const values = axes.map((axis): Column<Item> => ({
    title: axis,
    align: 'right',
    ...(axis !== CAUSAL && dropOf(shapes, axis)),
    cell: (item) => valueText(shape(item), axis) || (axis === CAUSAL ? '0' : piece('-', 'dim')),
  }));
  // A column of its own, which is never dropped, because a probe's error without its name would look like a case's.
  const remarks: Column<Item> = { title: '', cell: (item) => piece(remark?.(item) ?? '', 'dim') };
  return [
    ...(items.some((item) => name(item) !== '') ? [named] : []),
    ...values,
    ...(items.some((item) => remark?.(item)) ? [remarks] : []),
  ];
}

/** The attribute that is 0 where it is absent. */
const CAUSAL = 'causal';

/** The details below a table name every axis of the selected case, so only an axis of all cases is always shown. */
function dropOf(shapes: readonly (Shape | undefined)[], axis: string): { drop?: number } {
  const absent = shapes.filter((shape) => valueText(shape, axis) === '').length;
  return absent === 0 ? {} : { drop: RARE_AXIS_DROP + RARE_AXIS_DROP_RANGE * (absent / shapes.length) };
}

/**
 * A text for each case where there is room for few cells, the shortest of: its short form, its name, and the values in
 * which the cases differ, such as "rows=64 N=1024".
 */
export function shortTexts(shapes: readonly (Shape | undefined)[]): string[] {
  const axes = axesApart(shapes, Infinity) ?? [];
  return shapes.map((shape) => {
    if (shape === undefined) return '-';
    const values = axes
      .filter((axis) => valueText(shape, axis) !== '')
      .map((axis) => `${axis}=${valueText(shape, axis)}`);
    const texts = [formatShape(shape), areShort(shapes) ? '' : shape.name, values.join(' ')].filter(Boolean);
    return texts.reduce((shortest, text) => (text.length < shortest.length ? text : shortest));
  });
}

/** The values that all cases share, such as "H=32, D=128", if caseColumns() leaves it to a heading; else empty. */
export function sharedText(shapes: readonly (Shape | undefined)[], width?: number): string {
  const axes = axesApart(shapes, width);
  const [first] = shapes.filter((shape) => shape !== undefined);
  if (axes === undefined || first === undefined) return '';
  if (axes.length === 0) return caseText(first);
  return Object.entries(valuesOf(first))
    .filter(([axis]) => !axes.includes(axis))
    .map(([axis, extent]) => `${axis}=${extent}`)
    .join(', ');
}

/** A line above a table for what its cases have in common. */
export function sharedBlocks(shapes: readonly (Shape | undefined)[]): Block[] {
  const text = sharedText(shapes);
  return text === '' ? [] : [notice(`all cases: ${text}`, 'dim')];
}

/**
 * The axes and attributes that differ among the cases: those of FIRST, then the others in the order in which the cases
 * give them. Undefined if each row shows its case as a text: for a single case, for plain attention, and if the columns
 * would leave too little room for the figures.
 */
function axesApart(shapes: readonly (Shape | undefined)[], width = REPORT_CELLS): string[] | undefined {
  if (shapes.length < 2 || areShort(shapes)) return undefined;
  const all = shapes.map((shape) => (shape === undefined ? {} : valuesOf(shape)));
  const names = [...new Set([...FIRST, ...all.flatMap((values) => Object.keys(values))])];
  const axes = names.filter((name) => new Set(all.map((values) => entryOf(values, name))).size > 1);
  const cells = axes.map((axis) => Math.max(cellWidth(axis), ...shapes.map((shape) => valueText(shape, axis).length)));
  return cells.reduce((sum, each) => sum + each + GAP, 0) > width - FIGURE_CELLS ? undefined : axes;
}

/** Whether all cases have the short form of plain attention. */
const areShort = (shapes: readonly (Shape | undefined)[]): boolean =>
  shapes.every((shape) => shape === undefined || !formatShape(shape).includes('='));

const valueText = (shape: Shape | undefined, axis: string): string =>
  String((shape && entryOf(valuesOf(shape), axis)) ?? '');

const joined = (...texts: readonly (string | undefined)[]): string => texts.filter(Boolean).join(' ');
