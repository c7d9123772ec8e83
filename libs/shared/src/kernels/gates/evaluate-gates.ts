/** Evaluates each gate for a variant: pass, fail, or not measured with the reason. It never guesses. */
import { type GateResult, Verdict } from '../../generated/flashcore/runner/v1/result_pb.js';
import type { GateOperator, PlannedGate } from './gate.ts';
import type { GateContext, Measure, MetricAnswer } from './measure/answer.ts';
import { measureBenchmark, measureHistory } from './measure/benchmark.ts';
import { measureBuild } from './measure/build.ts';
import { measureProfile } from './measure/profile.ts';
import { measureVerify } from './measure/verify.ts';
import { phaseOfMetric, type GatePhase, type Metric } from './metrics.ts';
import { undecided } from './plan-gates.ts';
import { NOTES_FILE } from '../source-tree.ts';

/** Metrics of the kernel folder itself. */
const measureManifest: Measure = ({ undocumented }) => ({
  value: undocumented.length,
  detail:
    undocumented.length === 0
      ? 'title, lesson and NOTES.md are there'
      : `${undocumented.join(', ')} ${undocumented.length === 1 ? 'was' : 'were'} not filled in when this job ran: ${toWrite(undocumented)}, then ${isNotesAlone(undocumented) ? 'accept the result, without another run' : 'run it again to accept the result'}`,
  source: 'the kernel folder',
});

/** Notes can be handed in with an acceptance, but kernel.yaml is part of what was run. */
const isNotesAlone = (undocumented: readonly string[]): boolean => undocumented.every((part) => part === NOTES_FILE);

/** A remedy, such as "write into NOTES.md what the kernel changes and why". */
function toWrite(undocumented: readonly string[]): string {
  const inManifest = undocumented.filter((part) => part !== NOTES_FILE);
  return [
    ...(inManifest.length > 0 ? [`write ${inManifest.join(' and ')} into kernel.yaml`] : []),
    ...(inManifest.length < undocumented.length ? [`write into ${NOTES_FILE} what the kernel changes and why`] : []),
  ].join(' and ');
}

const MEASURES: Record<Exclude<GatePhase, 'group'>, Measure> = {
  build: measureBuild,
  verify: measureVerify,
  benchmark: measureBenchmark,
  profile: measureProfile,
  history: measureHistory,
  manifest: measureManifest,
};

const OPERATIONS: Record<GateOperator, (value: number, target: number) => boolean> = {
  '<=': (value, target) => value <= target,
  '>=': (value, target) => value >= target,
  '<': (value, target) => value < target,
  '>': (value, target) => value > target,
  '==': (value, target) => value === target,
};

/** A gate's answer. `partial` means that later data may still change it. */
export interface GateAnswer {
  result: GateResult;
  partial: boolean;
}

/** Evaluates a gate that has a metric of its own, unlike a group. */
export function evaluateGate(gate: PlannedGate, context: GateContext): GateAnswer {
  const answer = MEASURES[gate.phase as Exclude<GatePhase, 'group'>](context, gate.metric, gate.target);
  const result = undecided(gate);
  if (answer.source !== undefined) result.source = answer.source;
  if ('notMeasured' in answer) {
    result.verdict = answer.unknown && gate.level !== 'off' ? Verdict.FAIL : Verdict.NOT_MEASURED;
    result.detail = answer.notMeasured;
    return { result, partial: false };
  }
  return { result: judged(gate, result, answer), partial: answer.partial ?? false };
}

/** A metric's value; undefined if it was not measured. */
export function measureMetric(
  metric: Metric,
  context: Pick<GateContext, 'variant' | 'cases' | 'benchmarked'>,
): number | undefined {
  const phase = phaseOfMetric(metric.name);
  if (phase === undefined || phase === 'group') return undefined;
  const answer = MEASURES[phase]({ ...context, undocumented: [], noChampion: undefined, verified: [] }, metric, 0);
  return 'value' in answer ? answer.value : undefined;
}

function judged(gate: PlannedGate, result: GateResult, answer: Extract<MetricAnswer, { value: number }>): GateResult {
  result.value = answer.value;
  if (answer.low !== undefined) result.valueLow = answer.low;
  if (answer.high !== undefined) result.valueHigh = answer.high;
  result.modelled = answer.modelled ?? false;
  if (result.condition === '') result.condition = answer.shape ?? '';
  if (gate.level === 'off') {
    result.verdict = Verdict.NOT_JUDGED;
    result.detail = `${gate.why} (${answer.detail})`;
    return result;
  }
  const passed = OPERATIONS[gate.op](answer.value, gate.target);
  if (!passed && gate.phase === 'manifest' && gate.level === 'hard') {
    // Missing documentation prevents an acceptance but does not fail a run, because only later readers of the result
    // need it.
    result.verdict = Verdict.NOT_JUDGED;
    result.detail = answer.detail;
    return result;
  }
  result.verdict = passed ? Verdict.PASS : Verdict.FAIL;
  result.detail = passed ? answer.detail : `${answer.detail}; ${gate.why}`;
  return result;
}

/** Evaluates a group: it passes if one member passes, and fails only if all members were measured. */
export function evaluateGroup(gate: PlannedGate, answers: ReadonlyMap<string, GateResult>): GateResult {
  const result = undecided(gate);
  const members = gate.anyOf.flatMap((id) => answers.get(id) ?? []);
  const texts = members.map((member) => `${member.gateId} ${memberText(member)}`);
  const passed = members.filter((member) => holds(member) === true).length;
  const unknown = members.find((member) => holds(member) === undefined);
  result.detail = texts.join('; ');
  result.source = 'the gates that it stands for';
  if (passed === 0 && unknown) {
    result.verdict = Verdict.NOT_MEASURED;
    result.detail = unknown.detail;
    return result;
  }
  result.value = passed;
  result.modelled = members.some(({ modelled }) => modelled);
  if (gate.level === 'off') result.verdict = Verdict.NOT_JUDGED;
  else result.verdict = passed > 0 ? Verdict.PASS : Verdict.FAIL;
  return result;
}

/** Whether a member reaches its target, even if its own level is off; undefined if it was not measured. */
function holds({ value, verdict, comparison, target }: GateResult): boolean | undefined {
  if (verdict === Verdict.NOT_MEASURED || value === undefined) return undefined;
  return OPERATIONS[comparison as GateOperator](value, target);
}

const memberText = ({ value, comparison, target, unit }: GateResult): string =>
  value === undefined ? 'not measured' : `${Number(value.toPrecision(4))} ${unit} (${comparison} ${target})`;
