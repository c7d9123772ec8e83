/** Correctness on the dashboard, live: every case with its error, and the error as a share of the limit. */
import { Verdict, allProbes, type CaseResult } from '@flashcore/shared/contract';
import { bar } from '../../present/cells/bars.ts';
import { cellWidth, cutCells, padCells } from '../../present/cells/cell-text.ts';
import { fitRow, run, wrapRows, type Row, type Run } from '../../present/cells/row.ts';
import { formatCount, formatError, formatNumber } from '../../present/numbers.ts';
import { VERDICT_MARKS, reasonText, runningText } from '../../present/words.ts';
import type { VariantView } from '../../state/job-view.ts';
import { parityOf, shownVariant } from '../../state/selectors.ts';
import { checkedOf } from '../../state/variants.ts';
import { shortTexts } from '../../present/sections/case-columns.ts';
import { LARGEST_ERROR, caseRemark, isWithinLimit, limitText, worstText } from '../../present/sections/cases.ts';
import { mapOf } from '../../state/error-map.ts';
import { tileOf } from '../correct/error-map-rows.ts';
import { nothingYet } from '../pane/nothing.ts';
import { beside, type PaneContent, type Size, type View } from '../pane/view.ts';

const LEAST_CASE_CELLS = 13;
const ERROR_CELLS = 8;
const BAR_CELLS = 5;
const LIMIT_CELLS = 7;
/** Cells of a row without its case: mark, error, bar and share of the limit, with the gaps between them. */
const FIGURE_CELLS = 2 + 1 + ERROR_CELLS + 2 + BAR_CELLS + LIMIT_CELLS;
/** Cells between two columns of rows. */
const BETWEEN = 2;

export const correctLive: View = ({ state }, size) => {
  const variant = shownVariant(state);
  const lines = variant === undefined ? [] : linesOf(variant);
  if (variant === undefined || lines.length === 0)
    return { title: 'Correctness', body: nothingYet(state, 'correct', size) };
  return { title: `Correctness  ${caseTally(variant)}`, ...bodyOf(variant, lines, size) };
};

/** Text such as "6/7 cases within tolerance" or "7/7 cases, 33/33 probes within tolerance". */
function caseTally(variant: VariantView): string {
  const { cases, verify } = variant;
  return cases.length === 0 && verify !== undefined ? 'no case ran' : `${parityTally(variant)} within tolerance`;
}

/** Text such as "6/7 cases" or "7/7 cases, 33/33 probes". All panes show this tally. */
export function parityTally(variant: VariantView): string {
  const { passedCases, cases, passedProbes, probes } = parityOf(variant);
  const noun = (count: number, word: string): string => (count === 1 ? word : `${word}s`);
  const ofCases = `${passedCases}/${cases} ${noun(cases, 'case')}`;
  return probes === 0 ? ofCases : `${ofCases}, ${passedProbes}/${probes} ${noun(probes, 'probe')}`;
}

/** Failed probes; known only after verification. */
export const failedProbes = (verify: VariantView['verify']): CaseResult[] =>
  (verify ? allProbes(verify) : []).filter(({ verdict }) => verdict === Verdict.FAIL);

/** The case with the worst element: the one closest to the limit, or farthest beyond it. */
export function worstCase({ cases, verify }: VariantView): CaseResult | undefined {
  return (
    [...cases, ...failedProbes(verify)]
      // Errors take only finite elements into account, so they say nothing about a case with other elements.
      .filter(({ worst, nanCount, infCount }) => worst !== undefined && nanCount + infCount === 0n)
      .toSorted((a, b) => (b.worstOfLimit ?? 0) - (a.worstOfLimit ?? 0) || b.maxAbsError - a.maxAbsError)[0]
  );
}

/**
 * Says why a case failed although its largest error is within its limit: other errors are beyond smaller limits, or
 * whole rows are too far off.
 */
function whyWrong({ mismatches, rounding }: CaseResult): string {
  if (mismatches > 0n) return `${formatCount(mismatches)} outside`;
  return rounding === undefined ? '' : `${formatNumber(rounding.ratio, 2)}x rounding`;
}

function bodyOf(
  variant: VariantView,
  lines: readonly Line[],
  { width, height }: Size,
): Pick<PaneContent, 'body' | 'remark'> {
  const worst = worstCase(variant);
  const worstRow: Row[] =
    worst?.worst === undefined
      ? []
      : wrapRows(
          [worstText(worst, nameOf(lines, worst)), tileOf(worst.worst, worst)].filter(Boolean).join('; '),
          width,
          { hang: 2, role: 'dim' },
        );
  const room = height - 1 - Math.min(worstRow.length, 2);
  const longest = Math.max(LEAST_CASE_CELLS, ...lines.map(({ name }) => cellWidth(name)));
  const isTwo = width >= 2 * (longest + FIGURE_CELLS) + BETWEEN && lines.length > 1;
  const columnWidth = isTwo ? Math.floor((width - BETWEEN) / 2) : width;
  const caseCells = Math.max(LEAST_CASE_CELLS, Math.min(longest, columnWidth - FIGURE_CELLS));
  const rows = lines.map((line) => lineRow(line, caseCells));
  const perColumn = isTwo ? Math.ceil(rows.length / 2) : rows.length;
  // Rows that do not fit are counted in the remark, never dropped silently.
  const visible = Math.max(1, Math.min(perColumn, room));
  const left = rows.slice(0, visible);
  const right = isTwo ? rows.slice(perColumn, perColumn + visible) : [];
  const header = headerRow(caseCells, columnWidth);
  const hidden = rows.length - left.length - right.length;
  const body = isTwo ? beside([header, ...left], [header, ...right], { leftWidth: columnWidth }) : [header, ...left];
  const hasMap = checkedOf(variant).some((result) => mapOf(result) !== undefined);
  return {
    remark: [hidden > 0 ? `2: ${hidden} more` : '2: details', ...(hasMap ? ['error map'] : [])].join(', '),
    body: [...body, ...worstRow].slice(0, height).map((row) => fitRow(row, width)),
  };
}

const headerRow = (caseCells: number, width: number): Row => [
  run(cutCells(`  case${LARGEST_ERROR.padStart(caseCells + 1 + ERROR_CELLS - 'case'.length)}  of limit`, width), 'dim'),
];

/** A row of the pane: a case that has ended, or the step that is running. */
interface Line {
  readonly name: string;
  readonly result?: CaseResult;
  readonly running?: string;
}

/** Failures come first so that they are visible. */
function linesOf({ cases, verifying, verify }: VariantView): Line[] {
  const failed = [...failedProbes(verify), ...cases.filter(({ verdict }) => verdict === Verdict.FAIL)];
  const others = cases.filter(({ verdict }) => verdict !== Verdict.FAIL);
  const running = verifying === undefined ? [] : [verifying];
  const names = shortTexts([...failed, ...running, ...others].map(({ shape }) => shape));
  const lineOf = (result: CaseResult, index: number): Line => ({
    name: [names[index], caseRemark(result)].filter(Boolean).join(' '),
    result,
  });
  return [
    ...failed.map(lineOf),
    ...running.map((progress, index): Line => ({
      name: names[failed.length + index] ?? '',
      running: runningText(progress),
    })),
    ...others.map((result, index) => lineOf(result, failed.length + running.length + index)),
  ];
}

const nameOf = (lines: readonly Line[], result: CaseResult): string =>
  lines.find((line) => line.result === result)?.name ?? '';

/** Text such as "4 NaN, 12 Inf" or "12 Inf". */
const notFinite = ({ nanCount, infCount }: CaseResult): string =>
  [nanCount > 0n ? `${formatCount(nanCount)} NaN` : '', infCount > 0n ? `${formatCount(infCount)} Inf` : '']
    .filter((count) => count !== '')
    .join(', ');

/** The pane's rows with names of `caseCells` cells. */
export const caseRows = (variant: VariantView, caseCells = LEAST_CASE_CELLS): Row[] =>
  linesOf(variant).map((line) => lineRow(line, caseCells));

function lineRow({ name, result, running }: Line, caseCells: number): Row {
  if (result === undefined)
    return [run('● ', 'accent'), run(padCells(name, caseCells)), run(` ${running ?? ''}`, 'accent')];
  const { mark, role } = VERDICT_MARKS[result.verdict];
  const head: Run[] = [run(`${mark} `, role), run(padCells(name, caseCells))];
  if (result.verdict === Verdict.NOT_MEASURED) return [...head, run(' not run', 'dim')];
  if (result.nanCount + result.infCount > 0n) return [...head, run(` ${notFinite(result)}`, 'bad')];
  if (result.elements === 0n) return [...head, run(` ${reasonText(result.reason ?? '')}`, 'bad')];
  const share = result.worstOfLimit;
  const error = run(` ${padCells(formatError(result.maxAbsError), ERROR_CELLS, 'right')}  `);
  if (isWithinLimit(result)) return [...head, error, run(whyWrong(result), 'bad')];
  return [
    ...head,
    error,
    ...(share === undefined
      ? []
      : [
          run(bar(share, BAR_CELLS), share > 1 ? 'bad' : 'bar'),
          run(padCells(limitText(result), LIMIT_CELLS, 'right'), share > 1 ? 'bad' : 'dim'),
        ]),
  ];
}
