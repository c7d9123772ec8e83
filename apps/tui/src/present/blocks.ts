/**
 * What results are made of before anybody draws them: the terminal program paints blocks as cells, pipes get plain
 * text, a copy Markdown. A block has meaning and digits, and neither width nor colour.
 */
import type { CodeFrame, ErrorMap, Histogram } from '@flashcore/shared/contract';
import { piece, type Piece, type Role } from './roles.ts';

export type Block = Heading | Facts | TableBlock | Notice | FindingBlock | Code | Verbatim | Plot | OutcomeBlock;

/** Begins a section. */
export interface Heading {
  readonly kind: 'heading';
  readonly title: string;
  readonly remark: string;
  /** In a page: 1 its title, 2 a chapter. Absent: a section. */
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

export interface ColumnShape {
  readonly title: string;
  readonly align?: 'left' | 'right';
  /**
   * Least cells when the table is too wide; the column is as wide as its content otherwise. Set: the content may be cut
   * with "…".
   */
  readonly shrinkTo?: number;
  /** The answer that the table is read for: every other column gives way before it is cut. */
  readonly cutLast?: boolean;
  /** Goes first when the table is too wide: the highest of all. Absent: never dropped. */
  readonly drop?: number;
}

/** A column of a list of items: its shape, and what it says of an item. */
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
  /** Stands below the row: where a value is from, why there is none. */
  readonly note?: Piece | undefined;
}

/** A paragraph. Its mark alone has the role's colour; what is good, a warning or bad always has one. */
export interface Notice {
  readonly kind: 'notice';
  readonly text: string;
  readonly role: Role;
  readonly mark?: string;
}

/** What is wrong with a kernel, and what to do about it. */
export interface FindingBlock {
  readonly kind: 'finding';
  /** "out of bounds". */
  readonly word: string;
  readonly message: string;
  readonly facts: readonly Fact[];
  readonly remedy: string;
  readonly frame?: CodeFrame | undefined;
}

/** Lines of a source as they are, with the place that is meant. */
export interface Code {
  readonly kind: 'code';
  readonly file: string;
  readonly frame: CodeFrame;
}

/** A file's lines as they are, such as NOTES.md. */
export interface Verbatim {
  readonly kind: 'verbatim';
  readonly lines: readonly string[];
}

export interface PlotMark {
  /** Short: "p50". */
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

/** A measurement below the roof. */
export interface RoofPoint {
  readonly label: string;
  /** FLOPs a byte. */
  readonly intensity: number;
  readonly tflops: number;
}

/** Dense fp16 tensor throughput and device memory bandwidth. */
export interface Ceilings {
  readonly peakTflops: number;
  readonly memoryGbPerSecond: number;
}

export type Drawing =
  | { readonly type: 'histogram'; readonly histogram: Histogram; readonly marks: readonly PlotMark[] }
  | { readonly type: 'bars'; readonly bars: readonly Bar[]; readonly full: number }
  | { readonly type: 'ecdf'; readonly curves: readonly NamedHistogram[] }
  /** Two over one axis, the second upside down. */
  | { readonly type: 'mirrored'; readonly upper: NamedHistogram; readonly lower: NamedHistogram }
  | { readonly type: 'roofline'; readonly ceilings: Ceilings; readonly points: readonly RoofPoint[] }
  /** A value after each trial, and the trials themselves, where they have one. */
  | { readonly type: 'race'; readonly best: readonly number[]; readonly trials: readonly RacePoint[] }
  | { readonly type: 'heat'; readonly map: ErrorMap };

/** A trial's value; `good`: it became the best. */
export interface RacePoint {
  readonly trial: number;
  readonly value: number;
  readonly good: boolean;
}

export interface Plot {
  readonly kind: 'plot';
  readonly drawing: Drawing;
  /** What is drawn, of which job. A pane whose title says so has none. */
  readonly caption?: string;
}

/** How a job ended, and its name: the last line of a report, which programs read. */
export interface OutcomeBlock {
  readonly kind: 'outcome';
  /** "wrong result". */
  readonly word: string;
  readonly role: Role;
  readonly job: string;
}

export const heading = (title: string, remark = ''): Heading => ({ kind: 'heading', title, remark });

/** The title of a page, or of a chapter of it. */
export const chapter = (title: string, level: 1 | 2 = 2): Heading => ({ kind: 'heading', title, remark: '', level });

export const plot = (caption: string, drawing: Drawing): Plot => ({ kind: 'plot', drawing, caption });

const MARKS: Partial<Record<Role, string>> = { good: '✓', warn: '⚠', bad: '✗' };

export const notice = (text: string, role: Role = 'text', mark = MARKS[role]): Notice => ({
  kind: 'notice',
  text,
  role,
  ...(mark !== undefined && { mark }),
});

/** Facts without those that have nothing to say. */
export const facts = (...all: readonly (Fact | undefined)[]): Facts => ({
  kind: 'facts',
  facts: all.filter((fact) => fact !== undefined && fact.value !== '') as readonly Fact[],
});

export const fact = (label: string, value: string, role?: Role): Fact => ({ label, value, role });

export const asPiece = (cell: string | Piece): Piece => (typeof cell === 'string' ? piece(cell) : cell);

/** A table of items; `noteOf`: what stands below a row. */
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
