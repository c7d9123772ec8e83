/**
 * The state of a variant's gates: which ones are decided, which ones are being measured, and how many there are of
 * each.
 */
import { Phase, Verdict, type CaseResult, type GateResult } from '@flashcore/shared/contract';
import { isUnansweredOff } from '../present/gate-marks.ts';
import type { JobView } from './job-view.ts';

const PHASES: Partial<Record<Phase, string>> = {
  [Phase.BUILD]: 'build',
  [Phase.VERIFY]: 'verify',
  [Phase.BENCHMARK]: 'benchmark',
  [Phase.COMPARE]: 'benchmark',
  [Phase.PROFILE]: 'profile',
  [Phase.GATES]: 'history',
};

/** True if the running phase decides the gate. */
export function isMeasured({ phase, verdict }: GateResult, job: JobView | undefined): boolean {
  const last = job?.phases.at(-1);
  return (
    verdict === Verdict.UNSPECIFIED && last !== undefined && last.endTime === undefined && PHASES[last.phase] === phase
  );
}

/** True if the gate got no answer and will not get one. */
export const isOpen = (gate: Pick<GateResult, 'verdict' | 'level'>): boolean =>
  !isUnansweredOff(gate) && (gate.verdict === Verdict.NOT_MEASURED || gate.verdict === Verdict.NOT_JUDGED);

export interface GateTally {
  readonly passed: number;
  /** Failed gates of level warn; they do not fail the job. */
  readonly warned: number;
  readonly failed: number;
  readonly measured: number;
  readonly waiting: number;
  readonly notMeasured: number;
}

export function gateTally(all: readonly GateResult[], job: JobView | undefined): GateTally {
  const gates = all.filter((gate) => !isUnansweredOff(gate));
  const count = (is: (gate: GateResult) => boolean): number => gates.filter(is).length;
  const measured = count((gate) => isMeasured(gate, job));
  return {
    passed: count(({ verdict }) => verdict === Verdict.PASS),
    warned: count(({ verdict, level }) => verdict === Verdict.FAIL && level !== 'hard'),
    failed: count(({ verdict, level }) => verdict === Verdict.FAIL && level === 'hard'),
    measured,
    waiting: count(({ verdict }) => verdict === Verdict.UNSPECIFIED) - measured,
    notMeasured: count(isOpen),
  };
}

const NAN_METRIC = 'nan_inf_elements';

/** Fails a gate that forbids NaN and Inf as soon as the first one is counted, because the count can only grow. */
export function withNanCounted(gates: readonly GateResult[], cases: readonly CaseResult[]): readonly GateResult[] {
  const count = cases.reduce((sum, { nanCount, infCount }) => sum + Number(nanCount + infCount), 0);
  if (count === 0) return gates;
  return gates.map((gate) =>
    gate.metric === NAN_METRIC && gate.verdict === Verdict.UNSPECIFIED && gate.target === 0
      ? { ...gate, verdict: Verdict.FAIL, value: count, detail: `${count} so far` }
      : gate,
  );
}

/** Adds a gate's answer in the order of the plan. If a gate is reported twice, the last answer is kept. */
export function withGate(gates: readonly GateResult[], gate: GateResult): GateResult[] {
  const index = gates.findIndex(({ gateId }) => gateId === gate.gateId);
  return index < 0 ? [...gates, gate] : gates.with(index, gate);
}
