/** View 4 with the source on one side and its PTX or machine code on the other. */
import { create } from '@bufbuild/protobuf';
import { LineProfileSchema, type InstructionListing } from '@flashcore/shared/contract';
import { formatCount, formatPercent } from '../../present/numbers.ts';
import { BLANK_ROW, fitRow, run, textRow, wrapRows, type Row } from '../../present/cells/row.ts';
import type { Column } from '../../present/cells/table.ts';
import {
  hotBy,
  hottestLine,
  lineColumns,
  shownLines,
  sortedLines,
  type HotBy,
  type ShownLine,
} from '../../present/sections/lines.ts';
import type { AppState } from '../../state/app-state.ts';
import { shownVariant } from '../../state/selectors.ts';
import { list } from '../pane/list.ts';
import { beside, type PaneContent, type Size } from '../pane/view.ts';
import { pinnedProfile } from '../../state/pinned.ts';
import { openListing, type OpenListing } from '../../state/source-place.ts';

/** Least width for source and instructions side by side. In a narrower pane, one is above the other. */
const SIDE_BY_SIDE = 80;
const SOURCE_SHARE = 0.5;
/** Rows of instructions above those of the line under the cursor. */
const ROWS_ABOVE = 3;
const LINE_CELLS = 5;

/** A source line with the number of its instructions. */
interface ListedLine extends ShownLine {
  readonly count: number;
}

interface LinePlace {
  readonly file: string;
  readonly line: number;
}

const isAt = (a: LinePlace, b: LinePlace): boolean => a.line === b.line && a.file === b.file;

/** The source lines that have instructions, in the order of view 4. */
export function listedLines(state: AppState): readonly ListedLine[] {
  const listing = openListing(state)?.listing;
  const profile = shownVariant(state)?.profile;
  if (listing === undefined || profile === undefined) return [];
  const counted = new Map(
    shownLines(profile)
      .flatMap(({ lines }) => lines)
      .map((shown) => [keyOf(shown.line), shown]),
  );
  const { counts } = layoutOf(listing);
  const lines = listing.lines.map((source): ListedLine => {
    const shown = counted.get(keyOf(source)) ?? {
      line: create(LineProfileSchema, { file: source.file, line: source.line, text: source.text }),
      share: 0,
      conflictShare: 0,
    };
    return { ...shown, count: counts.get(keyOf(source)) ?? 0 };
  });
  return sortedLines(lines, state.ui.lineSort);
}

/** The line under the cursor: the chosen one or, if none was chosen, the hottest. */
export function selectedListed(state: AppState, lines: readonly ListedLine[]): number {
  const { listedPlace } = state.ui;
  const chosen = listedPlace === undefined ? -1 : lines.findIndex(({ line }) => isAt(line, listedPlace));
  const profile = shownVariant(state)?.profile;
  if (chosen >= 0 || profile === undefined) return Math.max(0, chosen);
  return hottestListed(lines, hotBy(profile, state.ui.lineSort));
}

/** Without counts, the line with the most instructions in the code. */
function hottestListed(lines: readonly ListedLine[], by: HotBy): number {
  const hottest = lines.some(({ share }) => share > 0)
    ? hottestLine(lines, by)
    : lines.toSorted((a, b) => b.count - a.count)[0];
  return Math.max(
    0,
    lines.findIndex(({ line }) => line === hottest?.line),
  );
}

export function listingPane(state: AppState, open: OpenListing, { width, height }: Size): PaneContent {
  const { language } = open.file;
  const title = `4 Profile  source and ${language}`;
  const lines = listedLines(state);
  const [first] = lines;
  if (open.listing === undefined || first === undefined) return { title, body: wrapRows(nothingText(open), width) };
  const selected = selectedListed(state, lines);
  const remark = `line ${selected + 1} of ${lines.length} by ${state.ui.lineSort}`;
  const line = lines[selected] ?? first;
  const code = (size: Size): Row[] => codeRows(open.listing!, { line, language, page: state.ui.detail, ...size });
  const source = (size: Size): Row[] => sourceRows(state, lines, { selected, language, ...size });
  if (width < SIDE_BY_SIDE) {
    const upper = Math.min(lines.length + 1, Math.floor(height * 0.4));
    const lower = { width, height: height - upper - 1 };
    return { title, remark, body: [...source({ width, height: upper }), BLANK_ROW, ...code(lower)] };
  }
  const left = Math.floor(width * SOURCE_SHARE);
  const right = code({ width: width - left - 2, height });
  return { title, remark, body: beside(source({ width: left, height }), right, { leftWidth: left }) };
}

function nothingText({ file: { language }, missing, listing }: OpenListing): string {
  if (missing !== undefined) return `No ${language}: ${missing}`;
  return listing === undefined ? `Reading the ${language} …` : `The ${language} names no line of the source`;
}

interface SourceLook extends Size {
  readonly selected: number;
  readonly language: string;
}

function sourceRows(state: AppState, lines: readonly ListedLine[], { language, ...look }: SourceLook): Row[] {
  const isCounted = lines.some(({ share }) => share > 0);
  const [number, instructions, ...others] = lineColumns(lines, pinnedProfile(state));
  const files = new Set(lines.map(({ line }) => line.file));
  const columns = [
    ...(files.size > 1 ? [{ title: 'file', shrinkTo: 8, cell: ({ line }: ListedLine) => run(line.file, 'dim') }] : []),
    number!,
    ...(isCounted ? [instructions!] : []),
    { title: language, align: 'right', drop: 1, cell: ({ count }: ListedLine) => run(formatCount(count), 'dim') },
    ...others.map((column) =>
      // The source keeps at least half of the width. The columns of other figures share the rest.
      column.shrinkTo === undefined ? column : { ...column, shrinkTo: Math.floor(look.width / 2) },
    ),
  ] satisfies Column<ListedLine>[];
  return list<ListedLine>(columns, lines, { ...look, focused: true });
}

interface CodeLook extends Size {
  readonly line: ListedLine;
  readonly language: string;
  /** Number of the occurrence of the line's instructions to show, modulo the number of occurrences. */
  readonly page: number;
}

function codeRows(listing: InstructionListing, look: CodeLook): Row[] {
  const { leftOut } = listing;
  const { line, language, page, width, height } = look;
  const { rows, places } = layoutOf(listing);
  const own = places.get(keyOf(line.line)) ?? [];
  const place = own.length === 0 ? 0 : ((page % own.length) + own.length) % own.length;
  const from = own[place] ?? 0;
  const visible = Math.max(0, height - 2);
  const top = Math.max(0, Math.min(from - ROWS_ABOVE, rows.length - visible));
  const several = own.length > 1 ? `, place ${place + 1} of ${own.length}, J: next` : '';
  const head: Row = [
    run(
      `${formatCount(line.count)} ${language} instruction${line.count === 1 ? '' : 's'} of line ${line.line.line}`,
      'title',
    ),
    run(several, 'key'),
    run(leftOut > 0 ? `, ${formatCount(leftOut)} more not listed` : '', 'dim'),
  ];
  return [head, executedRow(line), ...rows.slice(top, top + visible).map((row) => codeRow(row, line.line))].map((row) =>
    fitRow(row, width),
  );
}

/** How often the line's instructions ran. Only the emulator counts for each line. */
function executedRow({ line, share }: ListedLine): Row {
  if (line.instructions === 0n) return textRow('executions not counted: a GPU has no counts of single lines', 'dim');
  const count = formatCount(Number(line.instructions));
  return textRow(`${count} warp instructions of PTX executed, ${formatPercent(100 * share)} of all`, 'dim');
}

function codeRow({ text, place, startsAt }: CodeRow, selected: LinePlace): Row {
  if (place === undefined) return textRow(`      ${text}`, 'title');
  const number = run(`${startsAt > 0 ? String(startsAt) : ''}`.padStart(LINE_CELLS), 'dim');
  return isAt(place, selected) ? [number, run(' ▸ ', 'accent'), run(text, 'accent')] : [number, run('   '), run(text)];
}

/** A row of instructions. */
interface CodeRow {
  readonly text: string;
  /** Undefined if the row is the name of a function. */
  readonly place: LinePlace | undefined;
  /** The source line whose instructions begin in this row; otherwise 0. */
  readonly startsAt: number;
}

interface ListingLayout {
  readonly rows: readonly CodeRow[];
  /** The rows where the instructions of a line begin, by the line's key. */
  readonly places: ReadonlyMap<string, readonly number[]>;
  /** The number of instructions of each line. */
  readonly counts: ReadonlyMap<string, number>;
}

const keyOf = ({ file, line }: LinePlace): string => `${file}:${line}`;
const isLabel = (instruction: string): boolean => instruction.endsWith(':');

// A listing never changes, so it is laid out once rather than at every frame.
const layouts = new WeakMap<InstructionListing['blocks'], ListingLayout>();

function layoutOf({ blocks }: Pick<InstructionListing, 'blocks'>): ListingLayout {
  const known = layouts.get(blocks);
  if (known !== undefined) return known;
  const rows: CodeRow[] = [];
  const places = new Map<string, number[]>();
  const counts = new Map<string, number>();
  let inside = '';
  for (const block of blocks) {
    const { file, line, instructions } = block;
    if (block.function !== inside) rows.push({ text: block.function, place: undefined, startsAt: 0 });
    inside = block.function;
    const key = keyOf(block);
    places.set(key, [...(places.get(key) ?? []), rows.length]);
    counts.set(key, (counts.get(key) ?? 0) + instructions.filter((text) => !isLabel(text)).length);
    rows.push(
      ...instructions.map((text, index) => ({ text, place: { file, line }, startsAt: index === 0 ? line : 0 })),
    );
  }
  const layout = { rows, places, counts };
  layouts.set(blocks, layout);
  return layout;
}
