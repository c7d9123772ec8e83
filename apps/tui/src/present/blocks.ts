/**
 * The parts of a result before they are drawn. The terminal program paints blocks as cells, pipes get plain text, and a
 * copy is Markdown. A block has meaning and digits but no width or color.
 */
import type { CodeFrame, ErrorMap, Histogram } from '@flashcore/shared/contract';
import { piece, type Piece, type Role } from './roles.ts';

export type Block = Heading | Facts | TableBlock | Notice | FindingBlock | Code | Verbatim | Plot | OutcomeBlock;

/** Begins a section. */
export interface Heading {
  readonly kind: 'heading';
  readonly title: string;
  readonly remark: string;
  /** In a page: 1 for its title, 2 for a chapter. Absent for a section. */
  readonly level?: 1 | 2;
}

export interface Fact {
  readonly label: string;
  readonly value: string;
  readonly role?: Role | undefined;
}

/** Labelled values, the most important first. */
export interface Facts {
  readonly kind: 'facts';
  readonly facts: readonly Fact[];
}

interface ColumnShape {
  readonly title: string;
  readonly align?: 'left' | 'right';
  /** Cells of the column, whatever its content, so that the columns of a list that changes stay where they are. */
  readonly cells?: number;
  /**
   * Least width in cells if the table is too wide; the content may then be cut with "…". Absent: the column is always
   * as wide as its content.
   */
  readonly shrinkTo?: number;
  /** True for the column that readers of the table need most. It is cut only after all other columns. */
  readonly cutLast?: boolean;
  /** Drop order if the table is too wide: the highest number goes first. Absent: never dropped. */
  readonly drop?: number;
}

/** A column of a list of items: its shape, and its text for an item. */
export interface Column<Item> extends ColumnShape {
  readonly cell: (item: Item) => string | Piece;
}

export interface TableBlock {
  readonly kind: 'table';
  readonly columns: readonly ColumnShape[];
  readonly rows: readonly TableRow[];
}

export interface TableRow {
  readonly cells: readonly Piece[];
  /** Text below the row: the source of a value, or the reason why there is no value. */
  readonly note?: Piece | undefined;
}

/**
 * A paragraph. If it has a mark, only the mark has the role's color. Good results, warnings and failures always have a
 * mark.
 */
export interface Notice {
  readonly kind: 'notice';
  readonly text: string;
  readonly role: Role;
  readonly mark?: string;
}

/** A finding about a kernel, with its remedy. */
export interface FindingBlock {
  readonly kind: 'finding';
  /** The kind in words, such as "out of bounds". */
  readonly word: string;
  readonly message: string;
  readonly facts: readonly Fact[];
  readonly remedy: string;
  readonly frame?: CodeFrame | undefined;
  /** Further places that the message names. */
  readonly otherFrames?: readonly CodeFrame[];
}

/** Unchanged source lines, and the place in them that the block points to. */
export interface Code {
  readonly kind: 'code';
  readonly file: string;
  readonly frame: CodeFrame;
}

/** Unchanged lines of a file such as NOTES.md. */
export interface Verbatim {
  readonly kind: 'verbatim';
  readonly lines: readonly string[];
}

export interface PlotMark {
  /** A short label such as "p50". */
  readonly label: string;
  readonly value: number;
}

export interface Bar {
  readonly label: string;
  readonly value: number;
  /** The value in words, at the end of the bar. */
  readonly text: string;
}

/** Samples of one subject, with their median. */
export interface NamedHistogram {
  readonly label: string;
  readonly histogram: Histogram;
  readonly p50Us: number;
}

/** A measurement below the roofline. */
export interface RoofPoint {
  readonly label: string;
  /** FLOPs per byte. */
  readonly intensity: number;
  readonly tflops: number;
}

/** Dense fp16 tensor throughput and device memory bandwidth. */
interface Ceilings {
  readonly peakTflops: number;
  readonly memoryGbPerSecond: number;
}

export type Drawing =
  | { readonly type: 'histogram'; readonly histogram: Histogram; readonly marks: readonly PlotMark[] }
  | { readonly type: 'bars'; readonly bars: readonly Bar[]; readonly full: number }
  | { readonly type: 'ecdf'; readonly curves: readonly NamedHistogram[] }
  /** Two histograms over one axis, the second upside down. */
  | { readonly type: 'mirrored'; readonly upper: NamedHistogram; readonly lower: NamedHistogram }
  | { readonly type: 'roofline'; readonly ceilings: Ceilings; readonly points: readonly RoofPoint[] }
  /** The best value after each trial, and the values of the trials that have one. */
  | { readonly type: 'race'; readonly best: readonly number[]; readonly trials: readonly RacePoint[] }
  | { readonly type: 'heat'; readonly map: ErrorMap; readonly isNamed?: boolean };

/** A trial's value; `good` if it became the best. */
interface RacePoint {
  readonly trial: number;
  readonly value: number;
  readonly good: boolean;
}

export interface Plot {
  readonly kind: 'plot';
  readonly drawing: Drawing;
  /** Names the plot and its job. Absent in a pane whose title already does. */
  readonly caption?: string;
}

/** A job's outcome and name: the last line of a report, which programs read. */
interface OutcomeBlock {
  readonly kind: 'outcome';
  /** The outcome in words, such as "wrong result". */
  readonly word: string;
  readonly role: Role;
  readonly job: string;
}

export const heading = (title: string, remark = ''): Heading => ({ kind: 'heading', title, remark });

/** The title of a page or of one of its chapters. */
export const chapter = (title: string, level: 1 | 2 = 2): Heading => ({ kind: 'heading', title, remark: '', level });

export const plot = (caption: string, drawing: Drawing): Plot => ({ kind: 'plot', drawing, caption });

const MARKS: Partial<Record<Role, string>> = { good: '✓', warn: '⚠', bad: '✗' };

export const notice = (text: string, role: Role = 'text', mark = MARKS[role]): Notice => ({
  kind: 'notice',
  text,
  role,
  ...(mark !== undefined && { mark }),
});

/** Facts, without the undefined ones. */
export const facts = (...all: readonly (Fact | undefined)[]): Facts => ({
  kind: 'facts',
  facts: all.filter((fact) => fact !== undefined && fact.value !== '') as readonly Fact[],
});

export const fact = (label: string, value: string, role?: Role): Fact => ({ label, value, role });

const asPiece = (cell: string | Piece): Piece => (typeof cell === 'string' ? piece(cell) : cell);

/** A table of items; `noteOf` gives the text below a row. */
export function tableOf<Item>(
  columns: readonly Column<Item>[],
  items: readonly Item[],
  noteOf?: (item: Item) => Piece | undefined,
): TableBlock {
  return {
    kind: 'table',
    columns,
    rows: items.map((item) => ({ cells: columns.map(({ cell }) => asPiece(cell(item))), note: noteOf?.(item) })),
  };
}

const isSame = (a: Fact, b: Fact): boolean => a.label === b.label && a.value === b.value;

/** The facts that are the same in all results, in their order; empty for a single result. */
export function sharedFacts(results: readonly (readonly Fact[])[]): readonly Fact[] {
  const [first = [], ...others] = results;
  return others.length === 0
    ? []
    : first.filter((each) => others.every((facts) => facts.some((fact) => isSame(fact, each))));
}

export const withoutFacts = (facts: readonly Fact[], shared: readonly Fact[]): Fact[] =>
  facts.filter((each) => !shared.some((fact) => isSame(fact, each)));
