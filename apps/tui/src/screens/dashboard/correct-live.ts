/** Correctness on the dashboard, live: every case with its error, and the error as a share of the limit. */
import { Verdict, allProbes, type CaseResult } from '@flashcore/shared/contract';
import { bar } from '../../present/cells/bars.ts';
import { cutCells, padCells } from '../../present/cells/cell-text.ts';
import { fitRow, run, wrapRows, type Row, type Run } from '../../present/cells/row.ts';
import { formatCount, formatError, formatNumber } from '../../present/numbers.ts';
import { VERDICT_MARKS, reasonText, shapeShort } from '../../present/words.ts';
import type { VariantView } from '../../state/job-view.ts';
import { parityOf, shownVariant } from '../../state/selectors.ts';
import { elementText, isWithinLimit, limitText } from '../../present/sections/cases.ts';
import { tileOf } from '../correct/error-map-rows.ts';
import { nothingYet } from '../pane/nothing.ts';
import { beside, type PaneContent, type Size, type View } from '../pane/view.ts';

const CASE_CELLS = 13;
const ERROR_CELLS = 8;
const BAR_CELLS = 5;
const TWO_COLUMNS = 72;

export const correctLive: View = ({ state }, size) => {
  const variant = shownVariant(state);
  const rows = variant === undefined ? [] : caseRows(variant);
  if (variant === undefined || rows.length === 0)
    return { title: 'Correctness', body: nothingYet(state, 'correct', size) };
  return { title: `Correctness  ${caseTally(variant)}`, ...bodyOf(variant, rows, size) };
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
  rows: readonly Row[],
  { width, height }: Size,
): Pick<PaneContent, 'body' | 'remark'> {
  const worst = worstCase(variant);
  const worstRow: Row[] =
    worst?.worst === undefined
      ? []
      : wrapRows(
          [
            `worst ${worst.verdict === Verdict.FAIL ? `of ${shapeShort(worst.shape)}: ` : ''}${elementText(worst.worst, worst)}`,
            tileOf(worst.worst, worst),
          ]
            .filter(Boolean)
            .join('; '),
          width,
          {
            hang: 6,
            role: 'dim',
          },
        );
  const room = height - 1 - Math.min(worstRow.length, 2);
  const isTwo = width >= TWO_COLUMNS && rows.length > 1;
  const columnWidth = isTwo ? Math.floor((width - 2) / 2) : width;
  const perColumn = isTwo ? Math.ceil(rows.length / 2) : rows.length;
  // Rows that do not fit are counted in the remark, never dropped silently.
  const visible = Math.max(1, Math.min(perColumn, room));
  const left = rows.slice(0, visible);
  const right = isTwo ? rows.slice(perColumn, perColumn + visible) : [];
  const header = headerRow(columnWidth);
  const hidden = rows.length - left.length - right.length;
  const body = isTwo ? beside([header, ...left], [header, ...right], { leftWidth: columnWidth }) : [header, ...left];
  return {
    remark: hidden > 0 ? `2: ${hidden} more, error map` : '2: error map',
    body: [...body, ...worstRow].slice(0, height).map((row) => fitRow(row, width)),
  };
}

const headerRow = (width: number): Row => [
  run(
    cutCells(`  ${padCells('case', CASE_CELLS)} ${padCells('max err', ERROR_CELLS, 'right')}  of limit`, width),
    'dim',
  ),
];

export function caseRows({ cases, verifying, verify }: VariantView): Row[] {
  const running: Row[] =
    verifying === undefined
      ? []
      : [
          [
            run('● ', 'accent'),
            run(padCells(shapeShort(verifying.shape), CASE_CELLS)),
            run(` seed ${verifying.seedIndex + 1}/${verifying.seedCount}`, 'accent'),
          ],
        ];
  // Failures come first so that they are visible.
  const failed = [...failedProbes(verify), ...cases.filter(({ verdict }) => verdict === Verdict.FAIL)];
  const others = cases.filter(({ verdict }) => verdict !== Verdict.FAIL);
  return [...failed.map(caseRow), ...running, ...others.map(caseRow)];
}

/** Text such as "4 NaN, 12 Inf" or "12 Inf". */
const notFinite = ({ nanCount, infCount }: CaseResult): string =>
  [nanCount > 0n ? `${formatCount(nanCount)} NaN` : '', infCount > 0n ? `${formatCount(infCount)} Inf` : '']
    .filter((count) => count !== '')
    .join(', ');

function caseRow(result: CaseResult): Row {
  const { mark, role } = VERDICT_MARKS[result.verdict];
  const head: Run[] = [run(`${mark} `, role), run(padCells(shapeShort(result.shape), CASE_CELLS))];
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
          run(padCells(limitText(result), 6, 'right'), share > 1 ? 'bad' : 'dim'),
        ]),
  ];
}
