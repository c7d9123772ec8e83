/** The kernel's source with counters for each line, like the source page of a profiler. */
import type { LineProfile, ProfileResult } from '@flashcore/shared/contract';
import { heading, tableOf, type Block, type Column } from '../blocks.ts';
import { formatChange, formatCount } from '../numbers.ts';
import { piece, type Piece, type Role } from '../roles.ts';
import { shapeShort } from '../words.ts';

/** A source line with its shares of the kernel's totals. */
export interface ShownLine {
  readonly line: LineProfile;
  /** Shares of all instructions, and of all bank conflicts. */
  readonly share: number;
  readonly conflictShare: number;
}

const HOT_SHARE = 0.1;

const amount = (value: bigint, role: Role = 'text'): Piece =>
  piece(value === 0n ? '' : formatCount(Number(value)), role);

const DEEPEST = 8;

const indentationOf = (text: string): number => text.length - text.trimStart().length;

/** Shortens deep indentation. Continuation lines are indented so far that a narrow column would show only spaces. */
const indented = (text: string, indentation = indentationOf(text)): string =>
  `${' '.repeat(Math.min(DEEPEST, indentation))}${text.trim()}`;

const SOURCE = 'source';

const COLUMNS: readonly Column<ShownLine>[] = [
  { title: 'line', align: 'right', cell: ({ line }) => piece(String(line.line), 'dim') },
  {
    title: 'instr.',
    align: 'right',
    cell: ({ share }) => piece(`${(100 * share).toFixed(1)} %`, share >= HOT_SHARE ? 'accent' : 'text'),
  },
  {
    title: 'conflicts',
    align: 'right',
    cell: ({ line, conflictShare }) => amount(line.bankConflicts, conflictShare >= HOT_SHARE ? 'warn' : 'text'),
  },
  { title: 'wavefronts', align: 'right', drop: 2, cell: ({ line }) => amount(line.sharedWavefronts) },
  { title: 'sectors', align: 'right', drop: 3, cell: ({ line }) => amount(line.globalSectors) },
  { title: 'tensor', align: 'right', drop: 4, cell: ({ line }) => amount(line.tensorInstructions) },
  { title: 'special', align: 'right', drop: 5, cell: ({ line }) => amount(line.specialInstructions) },
  {
    title: 'lanes',
    align: 'right',
    drop: 6,
    cell: ({ line }) => (line.instructions === 0n ? '' : line.activeLanes.toFixed(1)),
  },
  { title: SOURCE, shrinkTo: 28, cutLast: true, cell: ({ line }) => indented(line.text) },
];

/** Leaves out columns that have no figure for any line. `before` is another profile to compare each line with. */
export function lineColumns(lines: readonly ShownLine[], before?: ProfileResult): Column<ShownLine>[] {
  const [line, instructions, ...others] = COLUMNS;
  const change = before && changeColumn(lines, before);
  const all = change === undefined ? COLUMNS : [line!, instructions!, change, ...others];
  return withFigures(all, lines);
}

const withFigures = (columns: readonly Column<ShownLine>[], lines: readonly ShownLine[]): Column<ShownLine>[] =>
  columns.filter(({ cell }) => lines.some((shown) => textOf(cell(shown)) !== ''));

/** Figures other than `by` are left out before the source has fewer cells. */
const LEAST_SOURCE = 40;

/**
 * The columns for a pane that shows only `shown` and is too narrow for all columns: those without a figure in `shown`
 * are left out, and so are the indentation that these lines share and half of the rest, so that the source has their
 * cells.
 */
export function narrowColumns(
  columns: readonly Column<ShownLine>[],
  { shown, by }: { shown: readonly ShownLine[]; by: HotBy },
): Column<ShownLine>[] {
  const common = Math.min(...shown.map(({ line }) => indentationOf(line.text)));
  return withFigures(columns, shown).map((column) => {
    if (column.title === SOURCE)
      return {
        ...column,
        shrinkTo: LEAST_SOURCE,
        // Lines outside of the pane may have less indentation.
        cell: ({ line: { text } }) => indented(text, Math.max(0, Math.ceil((indentationOf(text) - common) / 2))),
      };
    return column.title === by ? { ...column, drop: 0 } : column;
  });
}

/** Least share of lines that two versions of a source have in common; two different kernels have less. */
const LEAST_COMMON = 0.5;

/**
 * Each line's instructions compared with those of the same line in `before`. Lines are paired by their text, because an
 * edit above changes their numbers; lines with the same text are paired in order. Undefined if most lines have no pair,
 * because the sources are then those of different kernels.
 */
function changeColumn(lines: readonly ShownLine[], before: ProfileResult): Column<ShownLine> | undefined {
  const counts = Map.groupBy(before.lines, ({ text }) => text.trim());
  const occurrences = new Map<string, number>();
  const changes = new Map<LineProfile, Piece>();
  let common = 0;
  for (const { line } of lines.toSorted((a, b) => a.line.line - b.line.line)) {
    const text = line.text.trim();
    const index = occurrences.get(text) ?? 0;
    occurrences.set(text, index + 1);
    const then = Number(counts.get(text)?.[index]?.instructions ?? 0n);
    if (then > 0) common += 1;
    changes.set(line, changePiece(Number(line.instructions), then));
  }
  if (common < LEAST_COMMON * lines.length) return undefined;
  return { title: 'to pinned', align: 'right', drop: 1, cell: ({ line }) => changes.get(line) ?? '' };
}

function changePiece(now: number, then: number): Piece {
  if (then === 0) return piece('new', 'warn');
  if (now === then) return piece('', 'dim');
  return piece(formatChange(now / then - 1), now > then ? 'bad' : 'good');
}

const textOf = (cell: string | Piece): string => (typeof cell === 'string' ? cell : cell.text);

/** The lines of each file in order, without those that executed nothing. */
export function shownLines({ lines }: ProfileResult): { file: string; lines: ShownLine[] }[] {
  const sum = (of: (line: LineProfile) => bigint): number =>
    Math.max(1, Number(lines.reduce((all, each) => all + of(each), 0n)));
  const [instructions, conflicts] = [sum((line) => line.instructions), sum((line) => line.bankConflicts)];
  const shown = lines.map((line) => ({
    line,
    share: Number(line.instructions) / instructions,
    conflictShare: Number(line.bankConflicts) / conflicts,
  }));
  return [...Map.groupBy(shown, ({ line }) => line.file)].map(([file, of]) => ({ file, lines: of }));
}

/** Figures that lines can be sorted by. */
const AMOUNTS = {
  instructions: ({ line }: Pick<ShownLine, 'line'>) => line.instructions,
  conflicts: ({ line }: Pick<ShownLine, 'line'>) => line.bankConflicts,
  wavefronts: ({ line }: Pick<ShownLine, 'line'>) => line.sharedWavefronts,
  sectors: ({ line }: Pick<ShownLine, 'line'>) => line.globalSectors,
  tensor: ({ line }: Pick<ShownLine, 'line'>) => line.tensorInstructions,
  special: ({ line }: Pick<ShownLine, 'line'>) => line.specialInstructions,
};

type Sort = 'line' | keyof typeof AMOUNTS;

/** Sorts the largest figure first, and of equal ones the most instructions; "line" keeps the order of the file. */
export function sortedLines<Line extends ShownLine>(lines: readonly Line[], sort: Sort): readonly Line[] {
  if (sort === 'line') return lines;
  const amountOf = AMOUNTS[sort];
  return lines.toSorted((a, b) => Number(amountOf(b) - amountOf(a)) || b.share - a.share);
}

/** The figures that decide which line is the hottest. */
export type HotBy = keyof typeof AMOUNTS;

/** For each bottleneck of a profile, by its first words: the counters of the hardware unit that limits the kernel. */
const UNIT_FIGURES: readonly (readonly [unit: string, figure: HotBy])[] = [
  ['shared memory', 'wavefronts'],
  ['L1 cache', 'sectors'],
  ['device memory', 'sectors'],
  ['special functions', 'special'],
  ['tensor cores', 'tensor'],
];

/**
 * The figure of the order shown. In the order of the file it is what the unit that bounds the kernel counts, so that
 * the hottest line is the one that the bottleneck names.
 */
export function hotBy({ bottleneck = '', lines }: Pick<ProfileResult, 'bottleneck' | 'lines'>, sort: Sort): HotBy {
  if (sort !== 'line') return sort;
  const [, figure = 'instructions'] = UNIT_FIGURES.find(([unit]) => bottleneck.startsWith(unit)) ?? [];
  return lines.some((line) => AMOUNTS[figure]({ line }) > 0n) ? figure : 'instructions';
}

export const hottestLine = (lines: readonly ShownLine[], by: HotBy): ShownLine | undefined => sortedLines(lines, by)[0];

const ALMOST_ALL = 0.95;

/**
 * The rule by which one line has almost all instructions; empty if none has. Then the kernel's own file only calls a
 * function of a header.
 */
export function oneLineText(profile: ProfileResult): string {
  const only = shownLines(profile)
    .flatMap(({ lines }) => lines)
    .find(({ share }) => share > ALMOST_ALL);
  if (only === undefined) return '';
  const { line, file } = only.line;
  return `Line ${line} of ${file} stands for the functions of headers that it calls: their code counts for the call; i shows it`;
}

export const linesTitle = (
  file: string,
  { shape }: Pick<ProfileResult, 'shape'>,
): { title: string; remark: string } => ({
  title: `Lines of ${file}${shape === undefined ? '' : `, ${shapeShort(shape)}`}`,
  remark: 'PTX instructions; shared memory: conflicts, wavefronts; global memory: sectors',
});

export function linesBlocks(profile: ProfileResult): Block[] {
  return shownLines(profile).flatMap(({ file, lines }) => {
    const { title, remark } = linesTitle(file, profile);
    return [heading(title, remark), tableOf(lineColumns(lines), lines)];
  });
}
