/**
 * View 2: every case with its errors. Below the list, the selected case in detail with its worst element and an error
 * map.
 */
import { Verdict, type CaseResult, type Shape, type VerifyProgress } from '@flashcore/shared/contract';
import { valuesOf } from '@flashcore/shared/kernels';
import { fitRow, run, textRow, wrapRows, type Row } from '../../present/cells/row.ts';
import type { Column } from '../../present/cells/table.ts';
import type { VariantView } from '../../state/job-view.ts';
import { type UiState, type AppState } from '../../state/app-state.ts';
import { checkedOf } from '../../state/variants.ts';
import { caseShown, shownVariant, shownVariantText } from '../../state/selectors.ts';
import { VERDICT_MARKS, caseText, notMeasured, reasonText, runningText } from '../../present/words.ts';
import { mapOf, type CellBlocks, type SelectedMap } from '../../state/error-map.ts';
import { cursorFacts, errorMapRows, mapHeadRows } from './error-map-rows.ts';
import { parityTally } from '../dashboard/correct-live.ts';
import { list } from '../pane/list.ts';
import { nothingRows } from '../pane/nothing.ts';
import { beside, pageOf, type Size, type View } from '../pane/view.ts';
import { caseColumns, sharedText } from '../../present/sections/case-columns.ts';
import {
  caseFacts,
  caseRemark,
  elementText,
  errorColumns,
  reasonNamesWorst,
  toleranceOf,
  toleranceText,
  verdictPiece,
  worstText,
} from '../../present/sections/cases.ts';
import { piece, type Piece } from '../../present/roles.ts';
import { backendText } from '../../present/sections/sdpa.ts';
import { factRows } from '../../present/cells/cells-painter.ts';
import { blocksInCell } from '../../present/cells/heatmap.ts';

const HEAT_CELLS = 54;
const SIDE_BY_SIDE = 92;
const LEAST_BESIDE = 60;

type Line = { kind: 'done'; result: CaseResult } | { kind: 'running'; progress: VerifyProgress };

const ofDone = ({ cell, ...column }: Column<CaseResult>): Column<Line> => ({
  ...column,
  cell: (line) => (line.kind === 'running' ? piece('-', 'dim') : cell(line.result)),
});

const shapeOfLine = (line: Line): Shape | undefined => (line.kind === 'done' ? line.result.shape : line.progress.shape);

const columnsOf = (lines: readonly Line[], width: number): readonly Column<Line>[] => [
  ...caseColumns(lines, {
    shape: shapeOfLine,
    remark: (line) => (line.kind === 'done' ? caseRemark(line.result) : ''),
    width,
  }),
  { title: 'verdict', cell: lineVerdict, cutLast: true },
  ...errorColumns(lines.flatMap((line) => (line.kind === 'done' ? [line.result] : []))).map(ofDone),
];

function lineVerdict(line: Line): Piece {
  return line.kind === 'running' ? piece(`● ${runningText(line.progress)}`, 'accent') : verdictPiece(line.result);
}

export const correctnessView: View = ({ state }, size) => {
  const variant = shownVariant(state);
  const lines = linesOf(variant);
  if (variant === undefined || lines.length === 0)
    return { title: '2 Correct', body: nothingRows(state, 'correct', size) };
  const selected = Math.min(caseShown(state), lines.length - 1);
  const line = lines[selected];
  const listHeight = listRows(lines.length, { height: size.height, isInMap: state.ui.mapCursor !== undefined });
  const table = list(columnsOf(lines, size.width), lines, {
    width: size.width,
    height: listHeight,
    selected,
    focused: state.ui.view === 'correct' && state.ui.mapCursor === undefined,
  });
  const detailSize = { width: size.width, height: size.height - table.length - 1 };
  const detail =
    line?.kind === 'done'
      ? caseDetail(line.result, { ...detailSize, ui: state.ui, variant })
      : [textRow('This case runs now.', 'dim')];
  const which = shownVariantText(state);
  const shared = sharedText(lines.map(shapeOfLine), size.width);
  return {
    title: `2 Correct${which && `  ${which}`}${shared && `  ${shared}`}`,
    remark: `${casesRemark(variant)}; ${state.ui.mapCursor === undefined ? `row ${selected + 1} of ${lines.length}` : 'Esc leaves the map'}`,
    body: [...table, [run('─'.repeat(size.width), 'border')], ...detail].slice(0, size.height),
  };
};

/** Text such as "6/7 cases, 33/33 probes passed, 1 not run". The total includes cases that have not run yet. */
function casesRemark(variant: VariantView): string {
  const open = variant.cases.filter(({ verdict }) => verdict === Verdict.NOT_MEASURED).length;
  return `${parityTally(variant)} passed${open > 0 ? `, ${open} not run` : ''}`;
}

function linesOf(variant: VariantView | undefined): Line[] {
  if (variant === undefined) return [];
  const done = checkedOf(variant).map((result): Line => ({ kind: 'done', result }));
  const { verifying } = variant;
  return verifying !== undefined ? [...done, { kind: 'running', progress: verifying }] : done;
}

interface DetailOptions extends Size {
  readonly ui: Pick<UiState, 'detail' | 'mapCursor' | 'mapHead' | 'view'>;
  readonly variant: VariantView;
}

/**
 * The facts next to the map if there is room, or else above it. While the cursor is in the map, the facts about its
 * cell come first.
 */
function caseDetail(result: CaseResult, options: DetailOptions): Row[] {
  const { width, height, variant } = options;
  // Another view may be paged while this one is next to it.
  const ui = options.ui.view === 'correct' ? options.ui : { ...options.ui, detail: 0 };
  const map = mapOf(result);
  const tolerance = toleranceOf(result, variant.verify?.tolerance);
  if (map === undefined) return pageOf(caseRows(result, variant, width), { height, page: ui.detail });
  const isOwn = ui.view === 'correct';
  const cursor = isOwn ? ui.mapCursor : undefined;
  const head = isOwn ? ui.mapHead : undefined;
  const size = mapSize(options, result, variant);
  const cell = blocksInCell(map, { ...size, height: size.height - mapHeadRows(map) });
  const facts = (factsWidth: number): Row[] => [
    ...(cursor === undefined
      ? []
      : cursorFacts(result, map, {
          cursor,
          head,
          cell,
          width: factsWidth,
          tolerance,
          fragments: variant.build?.tensorCores ?? false,
        })),
    ...caseRows(result, variant, factsWidth),
    ...(cursor === undefined && isOwn ? [textRow('Enter moves a cursor over the map', 'key')] : []),
  ];
  const drawn = errorMapRows(result, map, { ...size, cursor, head, tolerance }).map((row) => fitRow(row, size.width));
  if (isBeside(options)) {
    const leftWidth = width - size.width - 2;
    return beside(pageOf(facts(leftWidth), { height, page: ui.detail }), drawn, { leftWidth });
  }
  return [...pageOf(facts(width), { height: height - size.height, page: ui.detail }), ...drawn];
}

// Rows for the facts about the cell under the cursor, or for the hint that Enter shows the cursor.
const CURSOR_ROWS = 5;

type DetailSize = Size & { readonly ui: Pick<UiState, 'mapCursor'> };

/**
 * Whether the facts are beside the map. While the cursor is in the map they are, so that the map gets the whole height
 * and never has coarser cells than before.
 */
const isBeside = ({ ui, width, height }: DetailSize): boolean =>
  width >= SIDE_BY_SIDE || height < 14 || (ui.mapCursor !== undefined && width >= LEAST_BESIDE);

/**
 * The map's share of the details. The facts are beside the map if there is room, else above it, where they take half of
 * the height at most.
 */
function mapSize(detail: DetailSize, result: CaseResult, variant: VariantView): Size {
  if (isBeside(detail)) return { width: Math.min(HEAT_CELLS, Math.floor(detail.width * 0.45)), height: detail.height };
  const facts = Math.min(Math.floor(detail.height / 2), caseRows(result, variant, detail.width).length + CURSOR_ROWS);
  return { width: detail.width, height: detail.height - facts };
}

/** The number of error-map blocks in one cell, as view 2 draws the map in a pane of this size. */
export function cellOfMap(state: AppState, { result, map }: SelectedMap, size: Size): CellBlocks {
  const variant = shownVariant(state);
  if (variant === undefined) return { rows: 1, columns: 1 };
  const lines = linesOf(variant);
  const listHeight = listRows(lines.length, { height: size.height, isInMap: state.ui.mapCursor !== undefined });
  const detail = { ui: state.ui, width: size.width, height: size.height - listHeight - 1 };
  const { width, height } = mapSize(detail, result, variant);
  return blocksInCell(map, { width, height: height - mapHeadRows(map) });
}

// The details get at least a third of the pane, and most of it while the cursor is in the map.
const listRows = (count: number, { height, isInMap }: { height: number; isInMap: boolean }): number =>
  Math.min(count + 1, Math.max(4, Math.floor(height * (isInMap ? 0.25 : 0.6))));

/** Facts in order of importance; later ones may move to further pages. */
function caseRows(result: CaseResult, { verify }: VariantView, width: number): Row[] {
  const tolerance = toleranceOf(result, verify?.tolerance);
  return [
    textRow(caseText(result.shape), 'title'),
    ...maskRows(result, width),
    ...(result.reason === undefined
      ? []
      : wrapRows(reasonText(result.reason), width, { role: VERDICT_MARKS[result.verdict].role })),
    ...(result.worst === undefined || reasonNamesWorst(result) ? [] : wrapRows(worstText(result), width, { hang: 2 })),
    ...(tolerance === undefined
      ? []
      : wrapRows(`tolerance ${toleranceText(tolerance)}`, width, { hang: 2, role: 'dim' })),
    ...factRows(caseFacts(result, verify?.seeds.length), width),
    ...sdpaFacts(result, width),
    ...(result.firstMismatches.length === 0
      ? []
      : [
          textRow('first mismatches', 'dim'),
          ...result.firstMismatches.flatMap((element) =>
            wrapRows(elementText(element, result), width, { indent: 2, hang: 4 }),
          ),
        ]),
  ];
}

/** Explains the mask `causal 2`, whose name does not say which keys a query sees. */
const maskRows = ({ shape }: CaseResult, width: number): Row[] =>
  shape !== undefined && valuesOf(shape).causal === 2
    ? wrapRows('causal 2: query i sees keys 0 to i + Skv - S', width, { role: 'dim' })
    : [];

/** Comparison with PyTorch's SDPA on the same inputs, one line per backend. */
function sdpaFacts({ sdpa, sdpaMissing }: CaseResult, width: number): Row[] {
  if (sdpa.length === 0)
    return sdpaMissing === undefined
      ? []
      : wrapRows(`SDPA ${notMeasured(sdpaMissing)}`, width, { role: 'dim', hang: 5 });
  return sdpa.flatMap((backend) =>
    wrapRows(backendText(backend), width, { hang: 2, role: backend.missing === undefined ? 'text' : 'dim' }),
  );
}
