/** View 2: every case with its errors; below, the selected one in detail with its worst element and an error map. */
import { Verdict, type CaseResult, type Tolerance, type VerifyProgress } from '@flashcore/shared/contract';
import { formatCount, formatError, formatSeconds } from '../../present/numbers.ts';
import { flowRows, labelled, run, textRow, wrapRows, type Row, type Run } from '../../present/cells/row.ts';
import type { Column } from '../../present/cells/table.ts';
import type { VariantView } from '../../state/job-view.ts';
import type { UiState } from '../../state/app-state.ts';
import { attachedJob, shownVariant, variantsOf } from '../../state/selectors.ts';
import { notMeasured, VERDICT_MARKS, shapeShort } from '../../present/words.ts';
import { mapOf } from '../../state/error-map.ts';
import { cursorFacts, elementText, errorMapRows } from './error-map-rows.ts';
import { list } from '../pane/list.ts';
import { nothingRows } from '../pane/nothing.ts';
import { beside, pageOf, type Size, type View } from '../pane/view.ts';

const HEAT_CELLS = 54;
const SIDE_BY_SIDE = 92;

type Line = { kind: 'done'; result: CaseResult } | { kind: 'running'; progress: VerifyProgress };

const figure =
  (value: (result: CaseResult) => string, role?: (result: CaseResult) => Run['role']) =>
  (line: Line): Run =>
    line.kind === 'running' || line.result.verdict === Verdict.NOT_MEASURED
      ? run('-', 'dim')
      : run(value(line.result), role?.(line.result));

// Errors are over finite elements: where there is none, 0 would look like a perfect answer.
const error = (value: (result: CaseResult) => number) =>
  figure((result) => (result.nanCount + result.infCount < result.elements ? formatError(value(result)) : '-'));

const badWhenSome =
  (count: (result: CaseResult) => bigint) =>
  (result: CaseResult): Run['role'] =>
    count(result) > 0n ? 'bad' : undefined;

const COLUMNS: Column<Line>[] = [
  { title: 'case', cell: (line) => shapeShort(line.kind === 'done' ? line.result.shape : line.progress.shape) },
  { title: 'verdict', cell: verdictRun, shrinkTo: 7 },
  { title: 'max err', align: 'right', cell: error(({ maxAbsError }) => maxAbsError) },
  { title: 'mean', align: 'right', cell: error(({ meanAbsError }) => meanAbsError) },
  { title: 'rms', align: 'right', drop: 1, cell: error(({ rmsError }) => rmsError) },
  { title: 'max rel', align: 'right', drop: 2, cell: error(({ maxRelError }) => maxRelError) },
  { title: 'p99.9', align: 'right', drop: 3, cell: error(({ p999AbsError }) => p999AbsError) },
  {
    title: 'mismatch',
    align: 'right',
    cell: figure(
      ({ mismatches }) => formatCount(mismatches),
      badWhenSome(({ mismatches }) => mismatches),
    ),
  },
  {
    title: 'NaN',
    align: 'right',
    cell: figure(
      ({ nanCount }) => formatCount(nanCount),
      badWhenSome(({ nanCount }) => nanCount),
    ),
  },
  { title: 'seeds', align: 'right', drop: 4, cell: figure(({ seeds }) => String(seeds)) },
  { title: 'time', align: 'right', drop: 5, cell: figure(({ seconds }) => formatSeconds(seconds)) },
];

function verdictRun(line: Line): Run {
  if (line.kind === 'running') return run(`● seed ${line.progress.seedIndex + 1}/${line.progress.seedCount}`, 'accent');
  const { mark, word, role } = VERDICT_MARKS[line.result.verdict];
  return run(`${mark} ${word}`, role);
}

export const correctnessView: View = ({ state }, size) => {
  const variant = shownVariant(state);
  const lines = linesOf(variant);
  if (variant === undefined || lines.length === 0)
    return { title: '2 Correct', body: nothingRows(state, 'correct', size) };
  const selected = Math.min(state.ui.selected.correct, lines.length - 1);
  const line = lines[selected];
  // A third of the pane at least stays for the details; while the cursor is in the map, most of it.
  const share = state.ui.mapCursor === undefined ? 0.6 : 0.25;
  const listHeight = Math.min(lines.length + 1, Math.max(4, Math.floor(size.height * share)));
  const table = list(COLUMNS, lines, {
    width: size.width,
    height: listHeight,
    selected,
    focused: state.ui.view === 'correct' && state.ui.mapCursor === undefined,
  });
  const detailSize = { width: size.width, height: size.height - table.length - 1 };
  const detail =
    line?.kind === 'done'
      ? caseDetail(line.result, { ...detailSize, ui: state.ui, tolerance: variant.verify?.tolerance })
      : [textRow('This case runs now.', 'dim')];
  const several = variantsOf(attachedJob(state)).length > 1;
  const tolerance = variant.verify?.tolerance?.profile;
  return {
    title: `2 Correct${several ? `  ${variant.label}` : ''}${tolerance ? `  ${tolerance} tolerance` : ''}`,
    remark: `${casesRemark(variant)}, ${state.ui.mapCursor === undefined ? `on case ${selected + 1}` : 'in the map, Esc leaves it'}`,
    body: [...table, [run('─'.repeat(size.width), 'border')], ...detail].slice(0, size.height),
  };
};

/** "6 of 7 cases pass, 1 fails". */
function casesRemark({ cases }: VariantView): string {
  const count = (wanted: Verdict): number => cases.filter(({ verdict }) => verdict === wanted).length;
  const [passed, failed, open] = [count(Verdict.PASS), count(Verdict.FAIL), count(Verdict.NOT_MEASURED)];
  return `${passed} of ${cases.length} case${cases.length === 1 ? '' : 's'} pass${passed === 1 && cases.length === 1 ? 'es' : ''}${failed > 0 ? `, ${failed} fail${failed === 1 ? 's' : ''}` : ''}${open > 0 ? `, ${open} not run` : ''}`;
}

function linesOf(variant: VariantView | undefined): Line[] {
  if (variant === undefined) return [];
  const done = variant.cases.map((result): Line => ({ kind: 'done', result }));
  const { verifying } = variant;
  return verifying !== undefined ? [...done, { kind: 'running', progress: verifying }] : done;
}

interface DetailOptions extends Size {
  readonly ui: Pick<UiState, 'detail' | 'mapCursor' | 'view'>;
  readonly tolerance: Tolerance | undefined;
}

/**
 * Facts beside the map where there is room, above it where not. With the cursor in the map, what it is on comes first.
 */
function caseDetail(result: CaseResult, { width, height, ui, tolerance }: DetailOptions): Row[] {
  const map = mapOf(result);
  if (map === undefined) return pageOf(caseFacts(result, width), { height, page: ui.detail });
  const cursor = ui.view === 'correct' ? ui.mapCursor : undefined;
  const facts = (factsWidth: number): Row[] => [
    ...(cursor === undefined ? [] : cursorFacts(result, map, { cursor, width: factsWidth, tolerance })),
    ...caseFacts(result, factsWidth),
    ...(cursor === undefined && ui.view === 'correct' ? [textRow('Enter moves a cursor over the map', 'key')] : []),
  ];
  if (width >= SIDE_BY_SIDE || height < 14) {
    const heatWidth = Math.min(HEAT_CELLS, Math.floor(width * 0.45));
    return beside(
      pageOf(facts(width - heatWidth - 2), { height, page: ui.detail }),
      errorMapRows(result, map, { width: heatWidth, height, cursor }),
      { leftWidth: width - heatWidth - 2 },
    );
  }
  const above = pageOf(facts(width), { height: Math.floor(height / 2), page: ui.detail });
  return [...above, ...errorMapRows(result, map, { width, height: height - above.length, cursor })];
}

/** Most important first: what does not fit stands on further pages. */
function caseFacts(result: CaseResult, width: number): Row[] {
  const rule = VERDICT_MARKS[result.flashAttentionRule];
  const groups: Row[] = [
    labelled('Inf', formatCount(result.infCount), result.infCount > 0n ? 'bad' : undefined),
    labelled('unwritten', formatCount(result.unwrittenCount), result.unwrittenCount > 0n ? 'bad' : undefined),
    labelled('elements', formatCount(result.elements)),
    labelled('seeds', String(result.seeds)),
    labelled(
      'same bits twice',
      result.deterministic === undefined ? 'not checked' : result.deterministic ? 'yes' : 'no',
      result.deterministic === false ? 'warn' : undefined,
    ),
    labelled('plain fp16 max', formatError(result.fp16MaxAbsError)),
    labelled('twice-fp16 rule', rule.word, rule.role),
  ];
  return [
    textRow(shapeShort(result.shape), 'title'),
    ...(result.reason === undefined
      ? []
      : wrapRows(result.reason, width, { role: VERDICT_MARKS[result.verdict].role })),
    ...(result.worst === undefined ? [] : wrapRows(`worst ${elementText(result.worst)}`, width, { hang: 6 })),
    ...flowRows(groups, width),
    ...sdpaFacts(result, width),
    ...(result.firstMismatches.length === 0
      ? []
      : [
          textRow('first mismatches', 'dim'),
          ...result.firstMismatches.flatMap((element) => wrapRows(elementText(element), width, { indent: 2, hang: 4 })),
        ]),
  ];
}

/** Beside PyTorch's SDPA on the same inputs: a line each backend. */
function sdpaFacts({ sdpa, sdpaMissing }: CaseResult, width: number): Row[] {
  if (sdpa.length === 0)
    return sdpaMissing === undefined
      ? []
      : wrapRows(`SDPA ${notMeasured(sdpaMissing)}`, width, { role: 'dim', hang: 5 });
  return sdpa.flatMap(
    ({ backend, missing, maxAbsDifference, maxAbsError, meanAbsError, sdpaMaxAbsError, sdpaMeanAbsError }) =>
      wrapRows(
        missing !== undefined
          ? `${backend} ${notMeasured(missing)}`
          : `${backend} off by at most ${formatError(maxAbsDifference)}; errors max ${formatError(maxAbsError)} (its ${formatError(sdpaMaxAbsError)}), mean ${formatError(meanAbsError)} (its ${formatError(sdpaMeanAbsError)})`,
        width,
        { hang: 2, ...(missing !== undefined && { role: 'dim' as const }) },
      ),
  );
}
