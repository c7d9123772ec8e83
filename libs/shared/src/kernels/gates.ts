/** gates.yaml, and what each gate answers for a variant: pass, fail, or not measured with the reason; never a guess. */
import { create } from '@bufbuild/protobuf';
import type { Cases } from './cases.ts';
import type { Shape } from '../generated/flashcore/runner/v1/kernel_pb.js';
import {
  type GateResult,
  GateResultSchema,
  type LatencyStatistics,
  type VariantResult,
  Verdict,
} from '../generated/flashcore/runner/v1/result_pb.js';
import { GATE_METRICS, GATE_PHASES, type GateMetricName, type GatePhase } from './gate-metrics.ts';
import { finite, listOf, matching, oneOf, parseYamlFile, strict, text } from './yaml-file.ts';
import { z } from 'zod';

export type GateLevel = 'hard' | 'warn' | 'off';
export type GateOperator = '<=' | '>=' | '<' | '==';

export interface Gate {
  readonly id: string;
  readonly title: string;
  /** Who measures it. */
  readonly phase: GatePhase;
  readonly metric: GateMetricName;
  readonly op: GateOperator;
  readonly target: number;
  readonly unit: string;
  /** hard: a fail rejects the kernel; warn: a fail is shown; off: the value is shown and not judged. */
  readonly level: GateLevel;
  readonly source: string;
  readonly why: string;
  /** In order: the last that fits kernel and architecture replaces target, level or why. */
  readonly overrides: readonly GateOverride[];
}

export interface GateOverride {
  /** Empty: every kernel. */
  readonly kernels: readonly string[];
  /** Empty: every architecture. */
  readonly archs: readonly string[];
  readonly target?: number | undefined;
  readonly level?: GateLevel | undefined;
  readonly why?: string | undefined;
}

/** A result that was accepted before. */
export interface AcceptedResult {
  /** The job it is from. */
  readonly job: string;
  /** Kernel and variant. */
  readonly label: string;
  readonly latency: Pick<LatencyStatistics, 'p50Us' | 'p50LowUs' | 'p50HighUs'>;
}

/** What the history gates compare with. A store fills it for one kernel and one device. */
export interface GateHistory {
  /** The fastest accepted, valid, hot result of the kernel on the device for this shape, the job at hand left out. */
  bestAccepted(shape: Shape): AcceptedResult | undefined;
}

export interface GateContext {
  kernelId: string;
  /** Architecture that the build report is for, for example "sm_89": chooses overrides. */
  arch: string;
  variant: VariantResult;
  /** undefined: nothing is stored here, which the history gates say. */
  history: GateHistory | undefined;
  /** Parity and canonical shapes, and the parity profile. */
  cases: Cases;
}

const OPERATORS: Record<GateOperator, (value: number, target: number) => boolean> = {
  '<=': (value, target) => value <= target,
  '>=': (value, target) => value >= target,
  '<': (value, target) => value < target,
  '==': (value, target) => value === target,
};

/**
 * Reads gates.yaml; `path` is for texts. Errors: INVALID_MANIFEST with path and key, also for a metric that nobody
 * measures.
 */
export function parseGates(yamlText: string, path: string): Gate[] {
  return parseYamlFile(yamlText, path, gatesSchema).value.gates.map(({ overrides, ...gate }) => ({
    ...gate,
    overrides: overrides.map(({ kernel, arch, ...rest }) => ({ kernels: kernel, archs: arch, ...rest })),
  }));
}

/** Every gate's answer, in order. */
export function evaluateGates(gates: readonly Gate[], context: GateContext): GateResult[] {
  return gates.map((gate) => evaluateGate(gateFor(gate, context), context));
}

/** A gate with the override that fits. */
export function gateFor(gate: Gate, { kernelId, arch }: Pick<GateContext, 'kernelId' | 'arch'>): Gate {
  const fitting = gate.overrides.findLast(
    ({ kernels, archs }) =>
      (kernels.length === 0 || kernels.includes(kernelId)) && (archs.length === 0 || archs.includes(arch)),
  );
  return fitting
    ? {
        ...gate,
        target: fitting.target ?? gate.target,
        level: fitting.level ?? gate.level,
        why: fitting.why ?? gate.why,
      }
    : gate;
}

function evaluateGate(gate: Gate, context: GateContext): GateResult {
  const { id, title, op, target, unit, level, source, why } = gate;
  const answer = GATE_METRICS[gate.metric].measure(context, gate);
  const result = { gateId: id, title, comparison: op, target, unit, level, source: answer.source ?? source };
  if ('notMeasured' in answer) {
    return create(GateResultSchema, {
      ...result,
      verdict: Verdict.NOT_MEASURED,
      detail: `not measured: ${answer.notMeasured.replace(/^not measured: /, '')}`,
    });
  }
  if (level === 'off')
    return create(GateResultSchema, {
      ...result,
      verdict: Verdict.NOT_MEASURED,
      value: answer.value,
      detail: `not judged: ${why} (${answer.detail})`,
    });
  const passed = OPERATORS[op](answer.value, target);
  return create(GateResultSchema, {
    ...result,
    verdict: passed ? Verdict.PASS : Verdict.FAIL,
    value: answer.value,
    detail: passed ? answer.detail : `${answer.detail}; ${why}`,
  });
}

const nameOrNames = z.union([z.string().transform((name) => [name]), z.array(z.string())]).default([]);
const level = oneOf(['hard', 'warn', 'off']);
const metricNames = Object.keys(GATE_METRICS) as [GateMetricName, ...GateMetricName[]];

const gateSchema = strict({
  id: matching(/^[a-z][a-z0-9_]{0,63}$/, 'an id of lower-case letters, digits and "_"'),
  title: text(),
  phase: oneOf(GATE_PHASES),
  metric: oneOf(metricNames),
  op: oneOf(['<=', '>=', '<', '==']),
  target: finite(),
  unit: text(),
  level,
  source: text(),
  why: text(),
  overrides: listOf(
    strict({
      kernel: nameOrNames,
      arch: nameOrNames,
      target: finite().optional(),
      level: level.optional(),
      why: text().optional(),
    }),
  ).default([]),
}).superRefine(({ metric, phase }, context) => {
  const measuredIn = GATE_METRICS[metric].phase;
  if (measuredIn !== phase)
    context.addIssue({
      code: 'custom',
      path: ['phase'],
      message: `wanted ${measuredIn}, which measures ${metric}, found ${phase}`,
    });
});

const gatesSchema = strict({ gates: listOf(gateSchema) }).superRefine(({ gates }, context) => {
  for (const [index, { id }] of gates.entries()) {
    if (gates.findIndex((gate) => gate.id === id) !== index)
      context.addIssue({
        code: 'custom',
        path: ['gates', index, 'id'],
        message: `the id "${id}" is taken by a gate before`,
      });
  }
});
