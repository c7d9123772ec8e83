/**
 * The gates of the shown variant in the rail. They are listed with their targets from the start and decided as data
 * arrives.
 */
import { Verdict, type GateResult } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import { notice } from '../../present/blocks.ts';
import { noticeRows } from '../../present/cells/cells-painter.ts';
import { cutWords, padCells, takeCells, wrapCells } from '../../present/cells/cell-text.ts';
import { firstRows, rowText, run, wrapRows, type Role, type Row, type Run } from '../../present/cells/row.ts';
import {
  MODELLED_SIGN,
  gateMark,
  gateTarget,
  isModelled,
  isUnansweredOff,
  modelledSign,
} from '../../present/gate-marks.ts';
import { notMeasured, shapeShort } from '../../present/words.ts';
import { formatCount, formatInUnit } from '../../present/numbers.ts';
import { gateTally, isMeasured, isOpen, type GateTally } from '../../state/gate-board.ts';
import type { JobView, VariantView } from '../../state/job-view.ts';
import { attachedJob, casesInAll, shownVariant, shownVariantText } from '../../state/selectors.ts';
import { nothingYet } from '../pane/nothing.ts';
import type { Size, View } from '../pane/view.ts';
import { standingOf, type Standing } from '../gates/decision-pane.ts';

const MARK_CELLS = 2;
/** Maximum rows of the decision if the gates fill the pane. */
const MOST_STANDING_ROWS = 3;
const ALL_ROWS = 1_000;
const COUNTED: ReadonlySet<string> = new Set(['registers', 'CTAs', 'shapes']);

export const gatesRail: View = ({ state }, size) => {
  const job = attachedJob(state);
  const variant = shownVariant(state);
  const title = `Gates  ${shownVariantText(state)}`.trimEnd();
  if (variant === undefined || variant.gates.length === 0) return { title, body: nothingYet(state, 'gates', size) };
  const standing = standingOf(state);
  const needed = railRows({ job, variant }, { ...size, height: ALL_ROWS }).length;
  const decided = standing?.matters ? standingRows(standing, { ...size, height: size.height - needed }) : [];
  return {
    title,
    remark: `5: ${tallyRemark(gateTally(variant.gates, job), size.width - '5: '.length)}`,
    body: [...decided, ...railRows({ job, variant }, { ...size, height: size.height - decided.length })],
  };
};

/** Only the mark is colored. A text that needs more rows than are free ends in "…"; view 5 has all of it. */
function standingRows({ text, role }: Standing, { width, height: free }: Size): Row[] {
  const rows = noticeRows(notice(text.slice(MARK_CELLS), role, text.slice(0, 1)), width);
  // Fewer rows let all other texts of the pane be whole, and the key to press comes first in this one.
  const most = free >= 1 ? free : MOST_STANDING_ROWS;
  if (rows.length <= most) return rows;
  const last = rowText(rows[most - 1] ?? []).trimEnd();
  return [...rows.slice(0, most - 1), [run(`${takeCells(last, width - 2).trimEnd()} …`)]];
}

interface Count {
  readonly mark: string;
  readonly count: number;
  readonly word: string;
  readonly role: Role;
}

/** The numbers of gates that every pane shows, so that no two panes count different ones. */
function tallyCounts({ passed, warned, failed, measured, waiting, notMeasured: open }: GateTally): Count[] {
  const counts: readonly Count[] = [
    { mark: '✓', count: passed, word: 'passed', role: 'good' },
    { mark: '⚠', count: warned, word: warned === 1 ? 'warning' : 'warnings', role: 'warn' },
    { mark: '✗', count: failed, word: 'failed', role: 'bad' },
    { mark: '●', count: measured, word: 'being measured', role: 'accent' },
    { mark: '○', count: waiting, word: 'to come', role: 'dim' },
    { mark: '–', count: open, word: 'open', role: 'dim' },
  ];
  return counts.filter(({ count }) => count > 0);
}

/** Numbers of gates, such as "✓4 ✗1 ●2 ○1 –9". */
export const tallyRuns = (tally: GateTally): Run[] =>
  tallyCounts(tally).flatMap(({ mark, count, role }, index) => [
    ...(index === 0 ? [] : [run(' ')]),
    run(`${mark}${count}`, role),
  ]);

/** The same numbers for a pane's border, with their words if there is room. */
export function tallyRemark(tally: GateTally, width: number): string {
  const counts = tallyCounts(tally);
  const words = counts.map(({ mark, count, word }) => `${mark}${count} ${word}`).join('  ');
  return words.length <= width - 2 ? words : counts.map(({ mark, count }) => `${mark}${count}`).join(' ');
}

interface Shown {
  readonly job: JobView | undefined;
  readonly variant: VariantView;
}

/**
 * One row for each gate and each reason. Spare rows go first to titles that need a second one, beginning with the gates
 * that decide the outcome, and then to the reasons.
 */
function railRows(shown: Shown, { width, height }: Size): Row[] {
  const told = shown.variant.gates.filter((gate) => !isOpen(gate) && !isUnansweredOff(gate));
  const laid = (isWrapped: boolean): Row[][] => told.map((gate) => gateRows(gate, shown, { width, isWrapped }));
  const open = openReasons(shown.variant);
  const [wrapped, cut] = [laid(true), laid(false)];
  const heaviestFirst = byWeight(told);
  let spare = height - open.length - told.length;
  if (spare < 0) {
    const reasons = reasonRows(open, { width, height: open.length });
    const all = heaviestFirst.flatMap((index) => cut[index]!);
    const gates = all.slice(0, Math.max(1, height - reasons.length - 1));
    return [...gates, [run(`▾ ${all.length - gates.length} more: 5`, 'dim')] satisfies Row, ...reasons].slice(
      0,
      height,
    );
  }
  const isWhole = new Set<number>();
  for (const index of heaviestFirst) {
    const more = wrapped[index]!.length - 1;
    if (more > spare) continue;
    isWhole.add(index);
    spare -= more;
  }
  const gates = told.flatMap((_, index) => (isWhole.has(index) ? wrapped : cut)[index]!);
  return [...gates, ...reasonRows(open, { width, height: height - gates.length })];
}

/** As many reasons in full as fit. The first of the others has the rows that are left, and the rest have one each. */
function reasonRows(reasons: readonly string[], { width, height }: Size): Row[] {
  const whole = reasons.map((reason) => wrapRows(reason, width, { role: 'dim', hang: MARK_CELLS }));
  const shortestFirst = whole.map((_, index) => index).sort((a, b) => whole[a]!.length - whole[b]!.length);
  const isWhole = new Set<number>();
  let room = height - reasons.length;
  for (const index of shortestFirst) {
    const more = whole[index]!.length - 1;
    if (more > room) break;
    room -= more;
    isWhole.add(index);
  }
  const first = whole.findIndex((_, index) => !isWhole.has(index));
  return reasons.flatMap((reason, index): readonly Row[] => {
    if (isWhole.has(index)) return whole[index]!;
    return index === first && room > 0
      ? firstRows(whole[index]!, 1 + room, width)
      : [[run(cutWords(reason, width), 'dim')]];
  });
}

/** The indices of the gates, those that decide the outcome first. */
function byWeight(gates: readonly GateResult[]): number[] {
  const weight = ({ verdict, level }: GateResult): number => {
    if (verdict === Verdict.FAIL) return level === 'hard' ? 0 : 1;
    return verdict === Verdict.UNSPECIFIED ? 2 : 3;
  };
  return gates.map((_, index) => index).toSorted((a, b) => weight(gates[a]!) - weight(gates[b]!));
}

function gateRows(
  gate: GateResult,
  { job, variant }: Shown,
  { width, isWrapped }: { width: number; isWrapped: boolean },
): Row[] {
  const { mark, role } = gateMark(gate, isMeasured(gate, job));
  // If the title already names the unit, the target omits it.
  const target = COUNTED.has(gate.unit) ? gateTarget({ ...gate, unit: '' }) : gateTarget(gate);
  const figure = figureText(gate, valueText(gate, variant), target);
  const cells = Math.max(8, width - MARK_CELLS - figure.length - 1);
  const title = `${gate.title}${otherShape(gate, variant)}`;
  const [first = '', ...more] = isWrapped ? wrapCells(title, cells) : [cutWords(gate.title, cells)];
  return [
    [run(`${mark} `, role), run(padCells(first, cells)), run(` ${figure}`, figureRole(gate))],
    ...more.map((line): Row => [run(' '.repeat(MARK_CELLS)), run(line)]),
  ];
}

/** Text such as ", 1x4x128x64": the shape of a launch's figure, if view 4 and its advice are about another shape. */
function otherShape({ phase, condition }: GateResult, { profile }: VariantView): string {
  const isOther = profile?.shape !== undefined && condition !== shapeShort(profile.shape);
  return phase === 'build' && condition !== '' && isOther ? `, ${condition}` : '';
}

/** What is true of a value that misses its target. */
const MISSED: Record<string, string> = { '<=': '>', '<': '>=', '>=': '<', '>': '<=' };

/**
 * Text such as "61 <= 64" or, of a gate that failed, "72 > 64". For a gate that requires one exact value: the value if
 * it passed, otherwise "85.7, not 100 %" or, if 0 is required, the amount, such as "128 B".
 */
function figureText(
  { comparison, verdict, target: limit, unit, value: told }: GateResult,
  value: string,
  target: string,
): string {
  if (comparison !== '==') {
    const missed = verdict === Verdict.FAIL ? entryOf(MISSED, comparison) : undefined;
    return `${value} ${missed === undefined ? target : target.replace(comparison, missed)}`.trim();
  }
  const wanted = target.replace(/^= /, '');
  // "5/7 cases = 100 %" would be false, and the count says already that more are to come.
  if (verdict === Verdict.UNSPECIFIED && value !== '') return value;
  if (verdict === Verdict.PASS) return wanted;
  // If 0 is required, the amount is enough.
  if (verdict === Verdict.FAIL && limit === 0 && told !== undefined) return amountText(told, unit);
  return verdict === Verdict.FAIL ? `${value}, not ${wanted}` : `${value} ${target}`.trim();
}

const amountText = (value: number, unit: string): string =>
  unit === 'elements' ? `${formatCount(value)} ${unit}` : formatInUnit(value, unit);

const figureRole = (gate: GateResult): Run['role'] => (gate.verdict === Verdict.FAIL ? gateMark(gate).role : 'dim');

/** The value, such as "61", or the progress so far; without the unit, because the target has it. */
function valueText(gate: GateResult, variant: VariantView): string {
  const { value, unit, verdict, metric } = gate;
  if (verdict === Verdict.UNSPECIFIED && metric === 'parity_cases_passed' && variant.cases.length > 0) {
    const passed = variant.cases.filter((result) => result.verdict === Verdict.PASS).length;
    return `${passed}/${casesInAll(variant)} cases so far`;
  }
  // The gate's mark already says that the value is still to come.
  if (value === undefined) return '';
  const text = formatInUnit(value, unit);
  const bare = text.split(' ')[0] ?? text;
  // Bytes keep their unit because 900 B and 24 KiB differ in scale.
  return `${modelledSign(gate)}${unit === 'B' || unit === 'bytes' ? text : bare}`;
}

/**
 * Text such as "to do before accepting: fill in NOTES.md". View 5 says what to write. Only the detail itself if it asks
 * for nothing, because the code that ran is gone.
 */
const toDoText = (detail: string): string =>
  !detail.includes(': ')
    ? detail
    : `to do before accepting: ${detail.replace(/^(.+?) (?:was|were) not filled in when this job ran: .+$/, 'fill in $1')}`;

/**
 * Lines such as "– 9 not measured: hardware counters need a GPU", one per reason. The first explains the sign of
 * modelled values, if there are any.
 */
function openReasons({ gates, build }: VariantView): string[] {
  // If the kernel does not compile, that is the only reason for all gates.
  if (build?.succeeded === false && gates.some(isOpen))
    return [`– ${gates.filter(isOpen).length} not evaluated: the kernel does not compile`];
  const counts = new Map<string, number>();
  for (const gate of gates.filter(isOpen)) {
    const reason = gate.verdict === Verdict.NOT_MEASURED ? notMeasured(gate.detail) : toDoText(gate.detail);
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  const modelled = gates.some(isModelled) ? [`${MODELLED_SIGN} modelled on the emulator`] : [];
  return [...modelled, ...[...counts].map(([reason, count]) => `– ${count} ${reason}`)];
}
