/**
 * View 4: the kernel under its device's roofline, hardware counters, stalls and advice; then the compiler's report on
 * each entry.
 */
import {
  Verdict,
  type LineProfile,
  type Metric,
  type ProfileResult,
  type BuildResult,
} from '@flashcore/shared/contract';
import { labelledBars } from '../../present/cells/bars.ts';
import { inParts, isLaunched, ENTRY_COLUMNS } from '../../present/sections/build.ts';
import { boundText, estimateText, launchText } from '../../present/sections/counters.ts';
import {
  type HotBy,
  hotBy,
  hottestLine,
  lineColumns,
  linesTitle,
  narrowColumns,
  oneLineText,
  shownLines,
  sortedLines,
} from '../../present/sections/lines.ts';
import { familyBars, stallBars } from '../../present/plots/job-plots.ts';
import { formatNumber, formatSeconds, formatPercent } from '../../present/numbers.ts';
import { BLANK_ROW, rowWidth, run, textRow, wrapRows, type Row } from '../../present/cells/row.ts';
import { table, type Column } from '../../present/cells/table.ts';
import type { AppState, LineSort } from '../../state/app-state.ts';
import type { VariantView } from '../../state/job-view.ts';
import { shownVariant } from '../../state/selectors.ts';
import { notMeasured, caseText, variantWord } from '../../present/words.ts';
import { nothingText } from '../pane/nothing.ts';
import { rooflineRows } from './roofline.ts';
import { beside, scrolled, type View } from '../pane/view.ts';
import { listingPane } from './listing.ts';
import { pinnedProfile } from '../../state/pinned.ts';
import { openListing } from '../../state/source-place.ts';

const SIDE_BY_SIDE = 110;
const ROOFLINE_ROWS = 13;

const METRIC_COLUMNS: Column<Metric>[] = [
  { title: 'counter', cell: ({ name }) => name, shrinkTo: 26 },
  {
    title: 'value',
    align: 'right',
    cell: ({ value, unit }) => `${formatNumber(Number(value.toPrecision(4)))} ${unit}`,
  },
  { title: 'source', drop: 1, shrinkTo: 10, cell: ({ source }) => run(source, 'dim') },
];

export const profileView: View = ({ state }, size) => {
  const open = openListing(state);
  if (open !== undefined) return listingPane(state, open, size);
  const title = `4 Profile  ${variantWord(shownVariant(state)?.label ?? '')}`.trimEnd();
  const wanted = state.ui.selected.profile;
  const rowsFrom = (row: number): Row[] => profileRows(state, size.width, { top: row, height: size.height });
  const unlimited = rowsFrom(wanted);
  const top = Math.max(0, Math.min(wanted, unlimited.length - size.height));
  const rows = top === wanted ? unlimited : rowsFrom(top);
  const pane = scrolled(title, rows, { ...size, top });
  // The column names stay in place while the lines scroll.
  const header = lineTables(state, size.width).find(({ first, last }) => top >= first && top <= last)?.header;
  return header === undefined ? pane : { ...pane, body: [rows[header] ?? [], ...pane.body.slice(1)] };
};

/** The rows of the view that the pane shows. */
interface Window {
  readonly top: number;
  readonly height: number;
}

/**
 * The whole view; the pane shows a window of it, on which the number of rows does not depend. Measured counters come
 * first because they show what to improve. Without counters, the compiler's report comes first.
 */
export function profileRows(state: AppState, width: number, window?: Window): Row[] {
  const variant = shownVariant(state);
  if (variant?.build === undefined) return wrapRows(nothingText(state, 'build'), width, { role: 'dim' });
  const counters = counterRows(variant, width, nothingText(state, 'counters'));
  const build = buildReport(variant.build, width);
  const roof = (cells: number): Row[] => rooflineRows(state, variant, { width: cells, height: ROOFLINE_ROWS });
  if (variant.profile?.verdict !== Verdict.PASS) return [...build, BLANK_ROW, ...roof(width), BLANK_ROW, ...counters];
  const lines = lineRows(variant.profile, {
    sort: state.ui.lineSort,
    width,
    before: pinnedProfile(state),
    tables: lineTables(state, width),
    window,
  });
  const above = adviceRows(variant.profile, width);
  const advice = [...above, ...(lines.length === 0 ? [] : [BLANK_ROW, ...lines])];
  if (width < SIDE_BY_SIDE)
    return [
      ...advice,
      BLANK_ROW,
      ...roof(width),
      BLANK_ROW,
      ...stallRows(variant.profile, width),
      BLANK_ROW,
      ...counters,
      BLANK_ROW,
      ...build,
    ];
  const left = Math.floor(width / 2) - 1;
  return [
    ...advice,
    BLANK_ROW,
    ...beside(roof(left), stallRows(variant.profile, width - left - 2), { leftWidth: left }),
    BLANK_ROW,
    ...counters,
    BLANK_ROW,
    ...build,
  ];
}

function counterRows({ profile, profiling }: VariantView, width: number, nothing: string): Row[] {
  const title = textRow('Hardware counters', 'title');
  if (profile === undefined)
    return [title, ...wrapRows(profiling === undefined ? nothing : profiling.message, width, { role: 'dim' })];
  if (profile.verdict === Verdict.NOT_MEASURED)
    return [title, ...wrapRows(notMeasured(profile.reason), width, { role: 'dim' }), ...adviceRows(profile, width)];
  const laid = table(METRIC_COLUMNS, profile.metrics, width);
  return [
    [
      run(profile.modelled ? 'Counters' : 'Hardware counters', 'title'),
      run(`  ${caseText(profile.shape)}, ${launchText(profile)}`, 'dim'),
    ],
    laid.header,
    ...laid.rows,
    ...(profile.reason ? wrapRows(`missing: ${profile.reason}`, width, { role: 'dim' }) : []),
    ...(profile.estimate?.missing === undefined
      ? []
      : wrapRows(`no estimate of a GPU's time: ${profile.estimate.missing}`, width, { role: 'dim' })),
  ];
}

/** First row of the source lines; undefined if no line has counters. */
export function linesTop(state: AppState, width: number): number | undefined {
  const profile = shownVariant(state)?.profile;
  return profile?.verdict === Verdict.PASS && profile.lines.length > 0
    ? adviceRows(profile, width).length + 1
    : undefined;
}

interface LineTable {
  readonly lines: ReturnType<typeof sortedLines>;
  /** Row numbers of the header, of the first line and of the last line. */
  readonly header: number;
  readonly first: number;
  readonly last: number;
}

/** The place of each file's lines among the rows of the view. */
function lineTables(state: AppState, width: number): LineTable[] {
  const profile = shownVariant(state)?.profile;
  const top = linesTop(state, width);
  if (profile === undefined || top === undefined) return [];
  let row = top;
  return shownLines(profile).map(({ lines }) => {
    const first = row + LINES_HEAD_ROWS;
    row = first + lines.length + 1;
    return { lines: sortedLines(lines, state.ui.lineSort), header: first - 1, first, last: row - 2 };
  });
}

/** Row of the hottest line in the order shown; undefined if no line has counters. */
export function hottestRow(state: AppState, width: number): number | undefined {
  const tables = lineTables(state, width);
  const profile = shownVariant(state)?.profile;
  const all = tables.flatMap(({ lines }) => lines);
  const hottest = profile && hottestLine(all, hotBy(profile, state.ui.lineSort));
  const table = tables.find(({ lines }) => lines.some(({ line }) => line === hottest?.line));
  return table && table.first + table.lines.findIndex(({ line }) => line === hottest?.line);
}

/** Title and header. */
const LINES_HEAD_ROWS = 2;

interface LinesLook {
  readonly sort: LineSort;
  readonly width: number;
  readonly before: ProfileResult | undefined;
  /** The place of each file's lines in the view. */
  readonly tables: readonly LineTable[];
  /** Absent: all rows. */
  readonly window: Window | undefined;
}

/** The source with its hot lines, like the source page of a profiler. */
function lineRows(profile: ProfileResult, { sort, width, before, tables, window }: LinesLook): Row[] {
  const all = shownLines(profile);
  const by = hotBy(profile, sort);
  const hottest = hottestLine(
    all.flatMap(({ lines }) => lines),
    by,
  )?.line;
  return all.flatMap(({ file, lines }, index) => {
    const { title, remark } = linesTitle(file, profile);
    const columns = lineColumns(lines, before).map((column, place) =>
      place === 0 ? markingHottest(column, hottest) : column,
    );
    const sorted = sortedLines(lines, sort);
    const shown = within(tables[index], window, sorted);
    const isWhole = rowWidth(table(columns, lines, Infinity).header) <= width;
    const laid = table(isWhole ? columns : narrowColumns(columns, { shown, by }), sorted, width);
    return [
      ...(index > 0 ? [BLANK_ROW] : []),
      linesHead(title, { sort, by, remark, width }),
      laid.header,
      ...laid.rows,
    ];
  });
}

/** The lines in the window; all of them if the window shows none, because their columns are then not seen. */
function within<Line>(place: LineTable | undefined, window: Window | undefined, lines: readonly Line[]) {
  if (place === undefined || window === undefined) return lines;
  const { top, height } = window;
  // The column names cover the first row of the window once they have been scrolled past.
  const from = Math.max(0, top + (top >= place.first ? 1 : 0) - place.first);
  const shown = lines.slice(from, Math.max(from, top + height - place.first));
  return shown.length === 0 ? lines : shown;
}

interface LinesHead {
  readonly sort: LineSort;
  /** The figure by which a line is marked as the hottest. */
  readonly by: HotBy;
  readonly remark: string;
  readonly width: number;
}

/** The remark is left out where it does not fit, and then the key H, which the bar has too. */
function linesHead(title: string, { sort, by, remark, width }: LinesHead): Row {
  const name = run(title, 'title');
  const head: Row = [name, run(`  by ${sort}, s sorts, H most ${by}`, 'key')];
  const short: Row = [name, run(`  by ${sort}, s sorts`, 'key')];
  const whole: Row = [...head, run(`  ${remark}`, 'dim')];
  return [whole, head, short].find((row) => rowWidth(row) <= width) ?? short;
}

/** The column of line numbers, with a mark at the hottest line. */
const markingHottest = (
  column: ReturnType<typeof lineColumns>[number],
  hottest: LineProfile | undefined,
): ReturnType<typeof lineColumns>[number] => ({
  ...column,
  cell: (shown) => (shown.line === hottest ? run(`▸ ${hottest.line}`, 'accent') : column.cell(shown)),
});

function stallRows(profile: ProfileResult, width: number): Row[] {
  const stalls = stallBars(profile);
  const shown = stalls.length > 0 ? stalls : familyBars(profile);
  if (shown.length === 0) return [];
  const bars = labelledBars(shown, { width, full: Math.max(...shown.map(({ value }) => value)) });
  const title = stalls.length > 0 ? 'Stalls, warp cycles per issued instruction' : 'Instructions of PTX, by family';
  return [textRow(title, 'title'), ...bars];
}

function adviceRows(profile: ProfileResult, width: number): Row[] {
  const { advice, estimate } = profile;
  const headline = boundText(profile);
  // The reason for a missing estimate comes last, below the counters.
  const estimated = estimate?.missing === undefined ? estimateText(estimate) : '';
  return [
    ...(headline === '' ? [] : wrapRows(headline, width, { role: 'accent', hang: 2 })),
    ...wrapRowsOf(oneLineText(profile), width),
    ...(estimated === '' ? [] : wrapRows(`Estimate ${estimated}`, width, { hang: 2 })),
    ...(advice.length === 0 ? [] : [textRow('What to try next', 'title')]),
    ...advice.flatMap(({ text, evidence }) => [
      ...wrapRows(`→ ${text}`, width, { hang: 2 }),
      ...(evidence === '' ? [] : wrapRows(evidence, width, { role: 'dim', indent: 2, hang: 2 })),
    ]),
  ];
}

const wrapRowsOf = (text: string, width: number): Row[] =>
  text === '' ? [] : wrapRows(text, width, { role: 'dim', hang: 2 });

/** The compilers' report on a build: resources of each entry, theoretical occupancy and compile time. */
function buildReport(build: BuildResult, width: number): Row[] {
  const runs = build.runs.map(
    ({ compiler, version, target, seconds, cacheHit, parts }) =>
      `${compiler} ${version} for ${target}: ${cacheHit ? 'cached' : formatSeconds(seconds)}${inParts(parts)}`,
  );
  const compilers = runs.flatMap((text) => wrapRows(text, width, { role: 'dim', hang: 2 }));
  const title = textRow(`Compiler's report${build.arch === '' ? '' : `, ${build.arch}`}`, 'title');
  if (build.entries.length === 0)
    return [title, ...wrapRows(notMeasured(build.entriesMissing), width, { role: 'dim' }), ...compilers];
  const laid = table(ENTRY_COLUMNS, build.entries, width);
  const launched = build.entries.filter(isLaunched);
  const bars = labelledBars(
    launched.map(({ entry, occupancyPercent, occupancyLimiter }) => ({
      label: entry,
      value: occupancyPercent,
      text: `${formatPercent(occupancyPercent)} by ${occupancyLimiter}`,
    })),
    { width, full: 100 },
  );
  return [
    title,
    laid.header,
    ...laid.rows,
    ...(bars.length === 0 ? [] : [textRow('Theoretical occupancy', 'title'), ...bars]),
    ...compilers,
  ];
}
