/** View 5: every gate's verdict, value, target and distance to passing, with the full reason. */
import { Verdict, type GateResult, type CaseSet, type GatePlan } from '@flashcore/shared/contract';
import { DEFAULT_PROBLEM, recordedProblem, valuesOf } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { formatInUnit } from '../../present/numbers.ts';
import { cutCells, padCells, wrapCells } from '../../present/cells/cell-text.ts';
import {
  fitRow,
  rowText,
  rowWidth,
  run,
  selectRow,
  windowStart,
  wrapRows,
  type Row,
  flowRows,
  labelled,
} from '../../present/cells/row.ts';
import { table, type Table } from '../../present/cells/table.ts';
import { aimText, decidingText, measuresText } from '../../present/sections/gate-plan.ts';
import { attachedJob, shownVariant, shownVariantText } from '../../state/selectors.ts';
import type { AppState } from '../../state/app-state.ts';
import { gateTally, isMeasured, isOpen } from '../../state/gate-board.ts';
import { tallyRemark } from '../dashboard/gates-rail.ts';
import type { JobView } from '../../state/job-view.ts';
import { nothingRows } from '../pane/nothing.ts';
import type { Size, View } from '../pane/view.ts';
import { GATE_COLUMNS, gateReason, gateTitle, ownGateText } from '../../present/sections/gates.ts';
import { gateMark, modelledSign } from '../../present/gate-marks.ts';
import { standingOf } from './decision-pane.ts';

const COMPACT = 60;
const CURSOR_CELLS = 2;
const MARK_CELLS = 2;
const GAP = 2;
const LEAST_TITLE_CELLS = 24;

export const gatesView: View = ({ state }, size) => {
  const variant = shownVariant(state);
  const title = `5 Gates  ${shownVariantText(state)}`.trimEnd();
  const gates = variant?.gates ?? [];
  if (gates.length === 0) return { title, body: nothingRows(state, 'gates', size) };
  const remark = tallyRemark(gateTally(gates, attachedJob(state)), size.width);
  const cursor = {
    ...size,
    focused: state.ui.view === 'gates',
    selected: Math.min(state.ui.selected.gates, gates.length - 1),
  };
  if (size.width < COMPACT) return { title, remark, body: compactRows(gates, cursor) };
  const job = attachedJob(state);
  const needed = fullRows(gates, { ...cursor, height: ALL_ROWS }, job).length;
  const head = headRows(state, size, size.height - needed);
  return { title, remark, body: [...head, ...fullRows(gates, { ...cursor, height: size.height - head.length }, job)] };
};

// In a small pane the gates get most of the rows.
const PLAN_SHARE = 0.3;
/** Most rows of the decision where the gates fill the pane and scroll. */
const MOST_STANDING_ROWS = 3;
const ALL_ROWS = 1_000;

/** True if the job computes attention, by its result or, until there is one, by the axes of its first case. */
function computesAttention({ provenance, variants }: JobView): boolean {
  if (provenance !== undefined) return recordedProblem(provenance.problem) === DEFAULT_PROBLEM;
  const shape = variants[0]?.cases[0]?.shape;
  return shape === undefined || 'D' in valuesOf(shape);
}

/** The plan of the gates and the possible decision. Both grow into the rows that the gates leave free. */
function headRows(state: AppState, { width, height }: Size, free: number): Row[] {
  const job = attachedJob(state);
  const plan = job?.plan;
  // The runner lists only attention's case sets.
  const caseSets = job !== undefined && computesAttention(job) ? state.caseSets : [];
  const standing = standingOf(state);
  const ofPlan = (rows: number): Row[] =>
    plan === undefined
      ? []
      : planRows(plan, { caseSets, canFallBack: canFallBack(state, job) }, { width, height: rows });
  const least = ofPlan(Math.max(1, Math.floor(height * PLAN_SHARE)));
  const decision =
    standing === undefined
      ? []
      : cutRows(
          wrapRows(standing.text, width, { role: standing.role, hang: 2 }),
          Math.max(MOST_STANDING_ROWS, free - least.length),
          width,
        );
  return [...ofPlan(Math.max(least.length, free - decision.length)), ...decision];
}

/** False for a listed kernel that has no parameter with which its tensor cores can be turned off. */
function canFallBack({ kernels }: AppState, job: JobView | undefined): boolean {
  const kernel = kernels.find(({ kernelId }) => kernelId === job?.kernelId);
  return kernel === undefined || kernel.parameters.some(({ name }) => name === 'USE_WMMA');
}

interface Cursor extends Size {
  readonly selected: number;
  readonly focused: boolean;
}

/**
 * Each gate with its full title, its figures and, if it did not pass, its reason. The window keeps the selected gate
 * whole.
 */
function fullRows(
  gates: readonly GateResult[],
  { width, height, selected, focused }: Cursor,
  job: JobView | undefined,
): Row[] {
  const longest = Math.max(...gates.map(({ title }) => title.length));
  const figuresOf = (titleCells: number): Table =>
    table(GATE_COLUMNS, gates, width - CURSOR_CELLS - MARK_CELLS - GAP - titleCells);
  // A title takes one row if the figures leave enough room, and wraps otherwise.
  const least = Math.min(longest, LEAST_TITLE_CELLS);
  const laid = figuresOf(least);
  const titleCells = Math.min(
    longest,
    least + Math.max(0, width - CURSOR_CELLS - MARK_CELLS - GAP - least - rowWidth(laid.header)),
  );
  const blocks = gates.map((gate, index): Row[] => {
    const { mark, role } = gateMark(gate, isMeasured(gate, job));
    const [first = '', ...more] = wrapCells(gate.title, titleCells);
    const head: Row = [
      run(index === selected ? '▸ ' : '  '),
      run(`${mark} `, role),
      run(padCells(first, titleCells)),
      run(' '.repeat(GAP)),
      ...(laid.rows[index] ?? []),
    ];
    const rest = more.map((line): Row => [run(' '.repeat(CURSOR_CELLS + MARK_CELLS)), run(line)]);
    return [
      index === selected && focused ? selectRow(head, width) : fitRow(head, width),
      ...rest,
      ...reasonRows(gate, { width, selected: index === selected, hasSource: laid.titles.includes('source') }),
    ];
  });
  const before = blocks.slice(0, selected).flat().length;
  const rows = blocks.flat();
  const start = windowStart({
    from: before,
    to: before + (blocks[selected]?.length ?? 1),
    count: rows.length,
    height: height - 1,
  });
  const header: Row = [run(padCells('    gate', CURSOR_CELLS + MARK_CELLS + titleCells + GAP), 'dim'), ...laid.header];
  return [header, ...rows.slice(start, start + height - 1)];
}

interface GateLook {
  width: number;
  selected: boolean;
  hasSource: boolean;
}

/** The reason of a gate that failed or was not measured. The selected gate shows it whatever its verdict. */
function reasonRows(gate: GateResult, { width, selected, hasSource }: GateLook): Row[] {
  const wanted = selected || isOpen(gate) || (gate.verdict === Verdict.FAIL && gate.level !== 'off');
  const source = selected && !hasSource && gate.source !== '' ? ` [${gate.level}, by ${gate.source}]` : '';
  const own = selected && gate.ownReason !== '' ? ` [${ownGateText(gate)}]` : '';
  const text = `${gateReason(gate)}${source}${own}`.trim();
  return wanted && text !== ''
    ? wrapRows(text, width, { role: gate.verdict === Verdict.FAIL ? 'text' : 'dim', indent: 4, hang: 4 })
    : [];
}

/** For the rail: each gate's full title with its value at the end; below the gates, the selected one's reason. */
function compactRows(gates: readonly GateResult[], { width, height, selected, focused }: Cursor): Row[] {
  const chosen = gates[selected];
  const reason = chosen === undefined || chosen.detail === '' ? [] : wrapRows(gateReason(chosen), width);
  const blocks = gates.map((gate, index) => compactGate(gate, { width, cursor: index === selected && focused }));
  const rows = blocks.flat();
  // Showing all gates has priority over showing a reason, unless the cursor is in this pane.
  const visible = Math.min(rows.length, Math.max(1, height - (focused ? Math.min(3, reason.length) : 0)));
  const before = blocks.slice(0, selected).flat().length;
  const start = windowStart({
    from: before,
    to: before + (blocks[selected]?.length ?? 1),
    count: rows.length,
    height: visible,
  });
  const room = height - visible;
  return [...rows.slice(start, start + visible), ...(room > 0 ? cutRows(reason, room, width) : [])];
}

/** The first rows; text that does not fit ends in "…". */
function cutRows(rows: readonly Row[], height: number, width: number): Row[] {
  const last = rows[height - 1] ?? [];
  if (rows.length <= height) return [...rows];
  return [...rows.slice(0, height - 1), [run(cutCells(`${rowText(last)}…`, width), last.at(-1)?.role)]];
}

// The titles of these gates name the unit.
const COUNTED = new Set(['registers', 'CTAs', 'shapes']);

function compactGate(gate: GateResult, { width, cursor }: { width: number; cursor: boolean }): Row[] {
  const { value, unit } = gate;
  const { mark, role } = gateMark(gate);
  const figure =
    value === undefined ? '-' : `${modelledSign(gate)}${formatInUnit(value, COUNTED.has(unit) ? '' : unit)}`;
  const [first = '', ...more] = wrapCells(gateTitle(gate), width - MARK_CELLS - figure.length - 1);
  const row: Row = [
    run(`${mark} `, role),
    run(`${padCells(first, width - MARK_CELLS - figure.length - 1)} `),
    run(figure, value === undefined ? role : undefined),
  ];
  return [cursor ? selectRow(row, width) : row, ...more.map((line): Row => [run(`  ${line}`)])];
}

/** At most `height` rows: the title, then the measurements, the deciding gates and the requirements. */
function planRows(
  plan: GatePlan,
  { caseSets, canFallBack }: { caseSets: readonly CaseSet[]; canFallBack: boolean },
  { width, height }: Size,
): Row[] {
  const { name, fallback, requirements } = plan;
  const dim = { role: 'dim', hang: 2 } as const;
  const all: Row[] = [
    [run(`plan ${name}`, 'title')],
    ...wrapRows(aimText(plan), width, dim),
    ...wrapRows(measuresText(plan, caseSets), width, dim),
    ...wrapRows(decidingText(plan), width, dim),
    ...flowRows(
      [
        ...(requirements.length === 0 ? [] : [labelled('requires', requirements.join(', '))]),
        labelled('fallback', canFallBack ? (entryOf(FALLBACKS, fallback) ?? fallback) : FALLBACKS['none']!),
      ],
      width,
    ),
  ];
  return cutRows(all, height, width);
}

const FALLBACKS: Record<string, string> = {
  beside: 'if the variant fails, USE_WMMA=0 runs as well and decides nothing',
  continue: 'if the variant fails, USE_WMMA=0 runs and its result decides',
  none: 'none',
};
