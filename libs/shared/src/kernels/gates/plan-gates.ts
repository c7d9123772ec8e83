/**
 * Applies a plan to one kernel: each gate with its level and target, and everything that must be measured for the
 * gates.
 */
import { TIMING_MODES } from '../../contract/names.ts';
import { create } from '@bufbuild/protobuf';
import { FlashcoreError } from '../../contract/errors.ts';
import {
  type GatePlan,
  GatePlanSchema,
  type GateResult,
  GateResultSchema,
} from '../../generated/flashcore/runner/v1/result_pb.js';
import type { Shape } from '../../generated/flashcore/runner/v1/kernel_pb.js';
import { didYouMean } from '../../text/nearest-names.ts';
import type { Cases } from '../cases.ts';
import { parseShape } from '../shape.ts';
import { DEFAULT_PROBLEM } from '../../problems/installed-problems.ts';
import type { Gate, GateLevel, GatesFile, OwnGate, Plan, PlannedGate, Requirements } from './gate.ts';
import { conditionText, isCounter } from './metrics.ts';
import { entryOf } from '../../text/entry-of.ts';

/**
 * The plan with this name, or the file's default if the name is empty. Errors: INVALID_REQUEST, which lists the plans.
 */
export function findPlan({ plans, defaultPlan }: GatesFile, name: string): Plan {
  const found = plans.get(name || defaultPlan);
  if (found) return found;
  const known = [...plans.keys()];
  const description = `must be one of ${known.join(', ')}, got "${name}"${didYouMean(name, known)}`;
  throw new FlashcoreError('INVALID_REQUEST', { plan: name }, `plan: ${description}`, {
    violations: [{ field: 'plan', description }],
  });
}

export interface Judged {
  plan: Plan;
  /** Gates of the kernel's manifest. */
  own: readonly OwnGate[];
  /** Architecture of the build, for example "sm_90a". */
  arch: string;
}

/** The gates of a file as a plan judges them, followed by gates that only the kernel has. */
export function plannedGates({ gates }: GatesFile, { plan, own, arch }: Judged): PlannedGate[] {
  const applying = own.filter(
    ({ archs, plans }) =>
      (archs.length === 0 || archs.some((each) => sameArch(each, arch))) &&
      (plans.length === 0 || plans.includes(plan.name)),
  );
  const ofFile = gates.map((gate) =>
    plannedGate(gate, { plan, arch, own: applying.findLast(({ id }) => id === gate.id) }),
  );
  const ids = new Set(gates.map(({ id }) => id));
  const added = applying.filter(({ id, gate }) => gate && !ids.has(id));
  return [...ofFile, ...added.map((each) => addedGate(each, plan))];
}

/** "sm_90" also matches "sm_90a". */
const sameArch = (asked: string, arch: string): boolean =>
  asked === arch || (!/[af]$/.test(asked) && asked === arch.replace(/[af]$/, ''));

interface GateContext {
  plan: Plan;
  arch: string;
  own: OwnGate | undefined;
}

function plannedGate(gate: Gate, { plan, arch, own }: GateContext): PlannedGate {
  const named = plan.gates.get(gate.id);
  const fitting = gate.overrides.findLast(({ archs }) => archs.some((each) => sameArch(each, arch)));
  const ofFile: PlannedGate = {
    ...gate,
    op: named?.op ?? gate.op,
    target: fitting?.target ?? named?.target ?? gate.target,
    level: (named && fitting?.level) ?? named?.level ?? plan.others,
    why: fitting?.why ?? named?.why ?? gate.why,
    ownReason: undefined,
  };
  if (!own) return ofFile;
  return {
    ...ofFile,
    ...(own.gate && { ...own.gate, overrides: [] }),
    op: own.op ?? ofFile.op,
    target: own.target ?? ofFile.target,
    level: ownLevel(own.level, { plan, named: named !== undefined, before: ofFile.level }),
    why: own.why,
    ownReason: own.why,
  };
}

interface LevelRules {
  plan: Plan;
  named: boolean;
  before: GateLevel;
}

/**
 * The level that a kernel asks for. In a plan that only shows the kernel's own gates, the kernel cannot make a gate
 * hard that the plan does not name.
 */
function ownLevel(asked: GateLevel | undefined, { plan, named, before }: LevelRules): GateLevel {
  if (asked === undefined) return before;
  if (asked === 'hard' && !named) return plan.ownGates === 'judged' ? 'hard' : before;
  return asked;
}

function addedGate({ gate, level, why }: OwnGate, { ownGates }: Plan): PlannedGate {
  const asked = level ?? 'hard';
  return { ...gate!, why, level: ownGates === 'shown' && asked === 'hard' ? 'warn' : asked, ownReason: why };
}

/** Everything that the gates need to have measured. */
export interface GateNeeds {
  /** Shapes that gates name in addition to those of the plan. */
  shapes: Shape[];
  modes: ('cold' | 'hot')[];
  /** Counters by the profiler's own names. */
  counters: string[];
  legacyLoop: boolean;
}

/**
 * The measurements that these gates need. Errors: INVALID_REQUEST for a text that is neither a case set nor a shape.
 */
export function gateNeeds(gates: readonly PlannedGate[], cases: Cases): GateNeeds {
  const judged = gates.filter(({ level, phase }) => level !== 'off' && phase !== 'group');
  const timed = judged.filter(({ phase }) => phase === 'benchmark');
  return {
    shapes: timed.flatMap(({ metric, level }) =>
      metric.shape === undefined || level !== 'hard' ? [] : shapesNamed(metric.shape, cases),
    ),
    modes: [...new Set(timed.flatMap(({ metric, level }) => (level === 'hard' ? [metric.mode ?? 'cold'] : [])))],
    counters: [...new Set(gates.flatMap(({ metric }) => (isCounter(metric.name) ? [metric.name] : [])))],
    legacyLoop: judged.some(({ metric }) => metric.name === 'legacy_loop_us'),
  };
}

/** The shapes of the case set that `text` names, or the one shape that it spells out. Errors: INVALID_REQUEST. */
export const shapesNamed = (text: string, { sets }: Cases): readonly Shape[] =>
  entryOf(sets, text) ?? [parseShape(text)];

/** A gate's result before it is decided. */
export function undecided(gate: PlannedGate): GateResult {
  const { id, title, op, target, unit, level, source, phase, metric, why, ownReason, anyOf } = gate;
  return create(GateResultSchema, {
    gateId: id,
    title,
    comparison: op,
    target,
    unit,
    level,
    source,
    phase,
    metric: metric.name,
    condition: conditionText(metric),
    why,
    ...(ownReason !== undefined && { ownReason }),
    anyOf: [...anyOf],
  });
}

/** A plan as a contract message. */
export function planMessage(
  plan: Plan,
  gates: readonly GateResult[],
  { isDefault, problem = DEFAULT_PROBLEM }: { isDefault: boolean; problem?: string },
): GatePlan {
  const { name, title, about, from, cases, shapes, modes, metricSet, champion, fallback, acceptable } = plan;
  return create(GatePlanSchema, {
    name,
    title,
    about,
    from,
    cases,
    shapes,
    modes: modes.map((mode) => TIMING_MODES[mode]),
    metricSet,
    champion,
    fallback,
    acceptable,
    gates: [...gates],
    requirements: requirementTexts(plan.require, problem),
    default: isDefault,
  });
}

/** The requirements as texts. Only attention has head dimensions and masks. */
function requirementTexts({ inputs, accumulate, multipleOf, causal, toggle }: Requirements, problem: string): string[] {
  const isAttention = problem === DEFAULT_PROBLEM;
  return [
    ...(inputs ? [`inputs ${inputs.join(' or ')}`] : []),
    ...(accumulate ? [`accumulation in ${accumulate}`] : []),
    ...(multipleOf && isAttention ? [`S and D multiples of ${multipleOf}, or masked`] : []),
    ...(causal && isAttention ? ['a launch for causal shapes'] : []),
    ...(toggle ? ['tensor cores can be turned off, or the manifest says why not'] : []),
  ];
}

/**
 * Ids of the locked gates that the manifest loosens. The locked gates are those that reject in the file's plan, and the
 * members of a rejecting group, because a member with an easy target would pass the whole group.
 */
export function loosenedGates(file: GatesFile, judged: Judged): string[] {
  const asked = new Map(plannedGates(file, judged).map((gate) => [gate.id, gate]));
  const ofFile = plannedGates(file, { ...judged, own: [] });
  const rejecting = ofFile.filter(({ level }) => level === 'hard');
  const members = new Set(rejecting.flatMap(({ anyOf }) => anyOf));
  return ofFile
    .filter(({ id, level }) => level === 'hard' || members.has(id))
    .filter((locked) => isLooser(asked.get(locked.id)!, locked))
    .map(({ id }) => id);
}

/**
 * Whether a gate is looser. A gate with another measurement or comparison is treated as looser, because the two targets
 * cannot be compared.
 */
function isLooser(asked: PlannedGate, locked: PlannedGate): boolean {
  if (locked.level === 'hard' && asked.level !== 'hard') return true;
  if (conditionOf(asked) !== conditionOf(locked)) return true;
  switch (locked.op) {
    case '<':
    case '<=':
      return asked.target > locked.target;
    case '>':
    case '>=':
      return asked.target < locked.target;
    case '==':
      return asked.target !== locked.target;
  }
}

const conditionOf = ({ metric, anyOf, op }: PlannedGate): string =>
  JSON.stringify([Object.entries(metric).toSorted(), anyOf, op]);
