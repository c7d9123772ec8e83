/** View 5: every gate's answer, value, target and distance to passing, with the reason in full. */
import { Verdict, type GateResult } from '@flashcore/shared';
import { formatInUnit, formatNumber } from '../plot/format.ts';
import { cutCells } from '../plot/cells.ts';
import { fitRow, rowText, run, selectRow, windowStart, wrapRows, type Role, type Row, type Run } from '../plot/row.ts';
import { table, type Column } from '../plot/table.ts';
import { attachedJob, countGates, nothingText, shownVariant, variantsOf } from '../state/selectors.ts';
import { VERDICT_MARKS, notMeasured } from '../state/words.ts';
import type { Size, View } from './view.ts';

const COMPACT = 60;
const CURSOR_CELLS = 2;

const COLUMNS: Column<GateResult>[] = [
  { title: 'gate', cell: ({ verdict, title }) => run(`${VERDICT_MARKS[verdict].mark} ${title}`, VERDICT_MARKS[verdict].role), shrinkTo: 20 },
  { title: 'answer', cell: ({ verdict }) => run(VERDICT_MARKS[verdict].word, VERDICT_MARKS[verdict].role), drop: 3 },
  { title: 'value', align: 'right', cell: ({ value, unit }) => (value === undefined ? run('-', 'dim') : formatInUnit(value, unit)) },
  { title: 'target', align: 'right', cell: ({ comparison, target, unit }) => `${comparison} ${formatInUnit(target, unit)}` },
  { title: 'distance', align: 'right', cell: distanceRun },
  { title: 'level', drop: 1, cell: ({ level }) => run(level, level === 'hard' ? 'title' : 'dim') },
  { title: 'source', cell: ({ source }) => run(source, 'dim'), drop: 2, shrinkTo: 16 },
];

export const gatesView: View = ({ state }, size) => {
  const variant = shownVariant(state);
  const several = variantsOf(attachedJob(state)).length > 1;
  const title = `5 Gates${several && variant !== undefined ? `  ${variant.label}` : ''}`;
  const gates = variant?.gates ?? [];
  if (gates.length === 0) return { title, body: wrapRows(nothingText(state, { pending: 'No gate has answered yet: RunExperiment evaluates them at its end.', ended: 'No gate was evaluated in this job.' }), size.width, { role: 'dim' }) };
  const { passed, failed, notMeasured: open } = countGates(gates);
  const words = `${passed} pass, ${failed} fail, ${open} not measured`;
  const remark = words.length <= size.width - 2 ? words : `✓${passed} ✗${failed} ○${open}`;
  if (size.width < COMPACT) return { title, remark, body: compactRows(gates, { ...size, focused: state.ui.view === 'gates', selected: Math.min(state.ui.selected.gates, gates.length - 1) }) };
  return { title, remark, body: fullRows(gates, { ...size, focused: state.ui.view === 'gates', selected: Math.min(state.ui.selected.gates, gates.length - 1) }) };
};

interface Cursor extends Size {
  readonly selected: number;
  readonly focused: boolean;
}

/** A row a gate, its reason below where it did not pass; the window keeps the selected gate whole. */
function fullRows(gates: readonly GateResult[], { width, height, selected, focused }: Cursor): Row[] {
  const laid = table(COLUMNS, gates, width - CURSOR_CELLS);
  const blocks = gates.map((gate, index): Row[] => {
    const row: Row = [run(index === selected ? '▸ ' : '  '), ...(laid.rows[index] ?? [])];
    return [index === selected && focused ? selectRow(row, width) : fitRow(row, width), ...reasonRows(gate, { width, selected: index === selected, hasTitle: !rowText(laid.rows[index] ?? []).includes('…'), hasSource: laid.titles.includes('source') })];
  });
  const before = blocks.slice(0, selected).flat().length;
  const rows = blocks.flat();
  const start = windowStart({ from: before, to: before + (blocks[selected]?.length ?? 1), count: rows.length, height: height - 1 });
  return [[run('  '), ...laid.header], ...rows.slice(start, start + height - 1)];
}

/** The reason always for fail and not measured, for the selected gate in any case. */
function reasonRows(gate: GateResult, { width, selected, hasTitle, hasSource }: { width: number; selected: boolean; hasTitle: boolean; hasSource: boolean }): Row[] {
  const wanted = selected || gate.verdict === Verdict.NOT_MEASURED || (gate.verdict === Verdict.FAIL && gate.level !== 'off');
  const source = selected && !hasSource && gate.source !== '' ? ` [${gate.source}]` : '';
  // What the table had to shorten stands here in full.
  const title = selected && !hasTitle ? `${gate.title}: ` : '';
  const text = `${title}${reasonOf(gate)}${source}`.trim();
  return wanted && text !== '' ? wrapRows(text, width, { role: roleOfReason(gate), indent: 4, hang: 4 }) : [];
}

/** The detail; of a gate that was not measured it says so first. */
const reasonOf = ({ verdict, detail }: GateResult): string => (verdict === Verdict.NOT_MEASURED ? notMeasured(detail) : detail);

const roleOfReason = ({ verdict }: Pick<GateResult, 'verdict'>): Role => (verdict === Verdict.FAIL ? 'warn' : 'dim');

// The gate's title says what is counted.
const COUNTED = new Set(['registers', 'CTAs', 'shapes']);

const COMPACT_COLUMNS: Column<GateResult>[] = [
  { title: '', cell: ({ verdict, title }) => run(`${VERDICT_MARKS[verdict].mark} ${title}`, VERDICT_MARKS[verdict].role), shrinkTo: 14 },
  { title: '', align: 'right', cell: ({ value, unit, verdict }) => (value === undefined ? run('-', VERDICT_MARKS[verdict].role) : run(formatInUnit(value, COUNTED.has(unit) ? '' : unit))) },
];

/** For the rail: one row a gate, below them the reason of the selected one. */
function compactRows(gates: readonly GateResult[], { width, height, selected, focused }: Cursor): Row[] {
  const chosen = gates[selected];
  const reason = chosen === undefined || chosen.detail === '' ? [] : wrapRows(reasonOf(chosen), width, { role: roleOfReason(chosen) });
  const visible = Math.min(gates.length, Math.max(1, height - (reason.length > 0 ? 2 : 0)));
  const start = windowStart({ from: selected, to: selected + 1, count: gates.length, height: visible });
  const rows = table(COMPACT_COLUMNS, gates, width).rows.map((row, index) => (index === selected && focused ? selectRow(row, width) : row)).slice(start, start + visible);
  const room = height - rows.length;
  // A reason that does not fit whole ends in "…"; the view itself has all of it.
  const fitted = reason.length <= room ? reason : [...reason.slice(0, room - 1), [run(cutCells(`${rowText(reason[room - 1] ?? [])}…`, width), roleOfReason(chosen ?? { verdict: Verdict.PASS }))]];
  return room > 0 ? [...rows, ...fitted] : rows;
}

/** How far from the target: relative to it, absolute where the target is 0. */
function distanceRun({ value, target, comparison, unit, verdict }: GateResult): Run {
  if (value === undefined) return run('-', 'dim');
  const difference = value - target;
  const text = target === 0 ? `${difference >= 0 ? '+' : ''}${formatInUnit(difference, unit)}` : `${difference >= 0 ? '+' : ''}${formatNumber(Math.round((difference / Math.abs(target)) * 1000) / 10)} %`;
  return run(difference === 0 && comparison === '==' ? 'met' : text, VERDICT_MARKS[verdict].role);
}
