/**
 * The cases of a table. Plain attention has its short form, such as "2x8x512x64c". Of other problems, each axis or
 * attribute that differs among the rows has a column; what all rows share is said once, by sharedText().
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
}

/** Names and remarks may be cut to this width; values never are while another column can go. */
const LEAST_NAME_CELLS = 10;
const LEAST_TEXT_CELLS = 20;
/** Between two columns of a table. */
const GAP = 2;

/** The first columns of a table of `items`. */
export function caseColumns<Item>(items: readonly Item[], { shape, remark }: CaseOf<Item>): Column<Item>[] {
  const name = (item: Item): string => [shape(item)?.name, remark?.(item)].filter(Boolean).join(' ');
  const text = (item: Item): string => [caseText(shape(item)), remark?.(item)].filter(Boolean).join(' ');
  const asText: Column<Item> = {
    title: 'case',
    cell: text,
    ...(!isShort(items, shape) && { shrinkTo: LEAST_TEXT_CELLS }),
  };
  const names = differing(items.flatMap((item) => shape(item) ?? []));
  if (names.length === 0 || isShort(items, shape)) return [asText];
  const value = (item: Item, axis: string): string => {
    const of = shape(item);
    const found = of && entryOf(valuesOf(of), axis);
    return found === undefined ? '-' : String(found);
  };
  const axes = names.map((axis): Column<Item> => ({
    title: axis,
    align: 'right',
    cell: (item) => {
      const found = value(item, axis);
      return found === '-' ? piece(found, 'dim') : found;
    },
  }));
  const widths = names.map((axis) => Math.max(cellWidth(axis), ...items.map((item) => value(item, axis).length)));
  // Where each row has attributes of its own, most cells of their columns would be empty.
  const longest = Math.max(...items.map((item) => cellWidth(shapeOnly(shape(item)))));
  if (widths.reduce((sum, width) => sum + width + GAP, 0) > longest + GAP) return [asText];
  const named: Column<Item> = { title: 'case', shrinkTo: LEAST_NAME_CELLS, cell: name };
  return items.some((item) => name(item) !== '') ? [named, ...axes] : axes;
}

/** What all cases have in common, such as "H=32, D=128", if caseColumns() leaves it to a heading; else empty. */
export function sharedText(shapes: readonly (Shape | undefined)[]): string {
  const columns = caseColumns(shapes, { shape: (shape) => shape });
  if (!columns.some(({ align }) => align === 'right')) return '';
  const known = shapes.filter((shape) => shape !== undefined);
  const differs = differing(known);
  return Object.entries(valuesOf(known[0]!))
    .filter(([axis]) => !differs.includes(axis))
    .map(([axis, extent]) => `${axis}=${extent}`)
    .join(', ');
}

/** A line above a table for what its cases have in common. */
export function sharedBlocks(shapes: readonly (Shape | undefined)[]): Block[] {
  const text = sharedText(shapes);
  return text === '' ? [] : [notice(`all cases: ${text}`, 'dim')];
}

const shapeOnly = (shape: Shape | undefined): string => (shape === undefined ? '' : formatShape(shape));

/** Whether all cases have the short form of plain attention. */
const isShort = <Item>(items: readonly Item[], shape: CaseOf<Item>['shape']): boolean =>
  items.every((item) => !shapeOnly(shape(item)).includes('='));

/** Axes and attributes that differ, in the order in which the cases give them. */
function differing(shapes: readonly Shape[]): string[] {
  const all = shapes.map(valuesOf);
  const names = [...new Set(all.flatMap((values) => Object.keys(values)))];
  return names.filter((name) => new Set(all.map((values) => entryOf(values, name))).size > 1);
}
