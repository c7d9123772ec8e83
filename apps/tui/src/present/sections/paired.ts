/** Two jobs side by side: times, resources, errors and counters, on the screen and by `fa-tui compare`. */
import { heading, notice, tableOf, type Block, type Column } from '../blocks.ts';
import { formatMicroseconds, formatNumber } from '../numbers.ts';
import { piece, type Piece, type Role } from '../roles.ts';

/** Titles of the columns for the two jobs. */
export interface Sides {
  readonly before: string;
  readonly after: string;
}

export interface PairedFigure {
  readonly name: string;
  readonly before: number | undefined;
  readonly after: number | undefined;
  readonly format: (value: number) => string;
  /** The unit of a counter; the format of other figures includes the unit. */
  readonly unit?: string;
  /** True for a share in percent, whose change is given in percentage points. */
  readonly isPercent?: boolean;
  /** True if the two values are shown without their change. */
  readonly isNotCompared?: boolean;
  /** The better direction; absent if there is none. */
  readonly better?: 'less' | 'more' | undefined;
}

/** Which of two jobs was not measured: the earlier, the later or both; 'common': both were, but not the same. */
export type Missing = 'before' | 'after' | 'both' | 'common';

export interface FigureGroup {
  readonly title: string;
  readonly figures: readonly PairedFigure[];
  /** Why the group has no figures, if it has none. */
  readonly missing: Missing | { readonly notCompared: string };
  /** The reason why the two jobs' figures are shown without their change. */
  readonly notCompared?: string | undefined;
  /** A remark on the figures where they are compared. */
  readonly remark?: string;
}

/** Says that the figures of two jobs are side by side only; `differ` is the reason. */
export const differText = (differ: string): string =>
  `${differ.charAt(0).toUpperCase()}${differ.slice(1)}. The figures are side by side, and no change is given.`;

export type PairedVerdict = 'faster' | 'slower' | 'no difference shown';

/** A shape in one timing mode, as both jobs timed it. */
export interface PairedTime {
  readonly shape: string;
  readonly mode: string;
  readonly beforeUs: number | undefined;
  readonly afterUs: number | undefined;
  /** Median of the earlier job divided by median of the later job. Above 1, the later job is faster. */
  readonly ratio?: { readonly ratio: number; readonly low: number; readonly high: number } | undefined;
  readonly verdict?: PairedVerdict | undefined;
  /** The reason why there is no ratio. */
  readonly notCompared?: string | undefined;
}

export const PAIRED_ROLES: Record<PairedVerdict, Role> = {
  faster: 'good',
  slower: 'bad',
  'no difference shown': 'text',
};

export const timeColumns = ({ before, after }: Sides): Column<PairedTime>[] => [
  { title: 'case', cell: ({ shape }) => shape },
  { title: 'mode', cell: ({ mode }) => mode },
  { title: `${before} p50`, align: 'right', drop: 0.5, cell: ({ beforeUs }) => timeText(beforeUs, beforeUs) },
  { title: `${after} p50`, align: 'right', drop: 0.5, cell: ({ beforeUs, afterUs }) => timeText(afterUs, beforeUs) },
  {
    title: 'speedup [95 %]',
    align: 'right',
    drop: 1,
    cell: ({ ratio }) =>
      ratio === undefined ? '-' : `${ratio.ratio.toFixed(3)} [${ratio.low.toFixed(3)}, ${ratio.high.toFixed(3)}]`,
  },
  {
    title: `${after} is`,
    cutLast: true,
    cell: ({ verdict }) =>
      verdict === undefined ? piece('not compared', 'dim') : piece(verdict, PAIRED_ROLES[verdict]),
  },
];

const timeText = (value: number | undefined, like: number | undefined): string =>
  value === undefined ? '-' : formatMicroseconds(value, like);

const CHANGE_COLUMN: Column<PairedFigure> = { title: 'change', align: 'right', cell: changePiece };

const figureColumns = ({ before, after }: Sides): Column<PairedFigure>[] => [
  { title: 'figure', cell: ({ name }) => name, shrinkTo: 27 },
  { title: before, align: 'right', cell: (figure) => valuePiece(figure.before, figure.format) },
  { title: after, align: 'right', cell: (figure) => valuePiece(figure.after, figure.format) },
];

const UNIT_COLUMN: Column<PairedFigure> = { title: 'unit', drop: 1, cell: ({ unit = '' }) => piece(unit, 'dim') };

const valuePiece = (value: number | undefined, format: PairedFigure['format']): Piece =>
  value === undefined ? piece('not measured', 'dim') : piece(format(value));

function changePiece({ before, after, better, format, isPercent, isNotCompared }: PairedFigure): Piece {
  if (before === undefined || after === undefined) return piece('');
  if (isNotCompared) return piece('not compared', 'dim');
  if (before === after) return piece('same', 'dim');
  const improved = after < before === (better === 'less');
  const sign = after > before ? '+' : '';
  const rounded = (value: number): string => formatNumber(Number(value.toPrecision(3)));
  let text = `${sign}${rounded(((after - before) / Math.abs(before)) * 100)} %`;
  if (before === 0) text = `${sign}${format(after)}`;
  if (isPercent) text = `${sign}${rounded(after - before)} points`;
  if (better === undefined) return piece(text);
  return piece(text, improved ? 'good' : 'bad');
}

function missingText(missing: FigureGroup['missing'], { before, after }: Sides): string {
  if (typeof missing === 'object') return `not compared: ${missing.notCompared}`;
  return {
    before: `measured in ${after}, not in ${before}`,
    after: `measured in ${before}, not in ${after}`,
    both: 'measured in neither job',
    common: 'measured in both jobs, but with nothing in common',
  }[missing];
}

/** Every group under its title. */
export const figureBlocks = (groups: readonly FigureGroup[], sides: Sides): Block[] =>
  groups.flatMap(({ title, figures, missing, notCompared, remark }): Block[] => {
    if (figures.length === 0) return [heading(title), notice(missingText(missing, sides), 'dim')];
    const hasUnits = figures.some(({ unit }) => unit !== undefined);
    const columns = [
      ...figureColumns(sides),
      ...(notCompared === undefined ? [CHANGE_COLUMN] : []),
      ...(hasUnits ? [UNIT_COLUMN] : []),
    ];
    return [heading(title, notCompared ? `not compared: ${notCompared}` : remark), tableOf(columns, figures)];
  });
