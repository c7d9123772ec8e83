/** A gate: what is measured, how it is compared with a target, and whether a fail rejects the kernel. */
import type { TensorDtype } from '../../data/dtype.ts';
import type { GatePhase, Metric } from './metrics.ts';

/** hard: a fail rejects the kernel; warn: a fail is shown; off: the value is shown but not judged. */
export type GateLevel = 'hard' | 'warn' | 'off';
export const OPERATORS = ['<=', '>=', '<', '>', '=='] as const;
export type GateOperator = (typeof OPERATORS)[number];

/** A gate of gates.yaml or of a kernel, without the level that a plan gives it. */
export interface Gate {
  readonly id: string;
  readonly title: string;
  readonly phase: GatePhase;
  /** An empty metric name marks a group, which passes if one of `anyOf` does. */
  readonly metric: Metric;
  readonly anyOf: readonly string[];
  readonly op: GateOperator;
  readonly target: number;
  readonly unit: string;
  readonly source: string;
  readonly why: string;
  /** In order; the last override that fits the architecture replaces target, level or why. */
  readonly overrides: readonly ArchOverride[];
}

interface ArchOverride {
  readonly archs: readonly string[];
  readonly target?: number | undefined;
  readonly level?: GateLevel | undefined;
  readonly why?: string | undefined;
}

/** A gate in a kernel's manifest: another target or level for a gate of the file, or a new gate. */
export interface OwnGate {
  readonly id: string;
  readonly why: string;
  /** Empty means every architecture. */
  readonly archs: readonly string[];
  /** Empty means every plan. */
  readonly plans: readonly string[];
  readonly level: GateLevel | undefined;
  readonly target: number | undefined;
  readonly op: GateOperator | undefined;
  /** Set if the manifest defines the measurement: it is then a complete gate, which the file need not have. */
  readonly gate: Gate | undefined;
}

/** A gate as a plan judges it for one kernel. */
export interface PlannedGate extends Gate {
  readonly level: GateLevel;
  /** Why the kernel's own manifest changes the target or level; undefined if it does not. */
  readonly ownReason: string | undefined;
}

/** Requirements that the precheck checks before a build. */
export interface Requirements {
  /** The kernel's inputs must have one of these dtypes; undefined: any. */
  readonly inputs?: readonly TensorDtype[] | undefined;
  readonly accumulate?: 'fp16' | 'fp32' | undefined;
  /** S and D must be multiples of this, or the kernel must mask the remainder. */
  readonly multipleOf?: number | undefined;
  /** Every causal shape must have a launch that receives `causal`. */
  readonly causal: boolean;
  /** The tensor cores must be switchable, or the manifest must say why not. */
  readonly toggle: boolean;
}

type Fallback = 'beside' | 'continue' | 'none';

/** The requirements of an experiment, its gates with their levels, and the effect of a failed toggle. */
export interface Plan {
  readonly name: string;
  readonly title: string;
  readonly about: string;
  readonly from: string;
  /** The case set to verify. */
  readonly cases: string;
  /** The case set to benchmark; "none" means nothing is benchmarked. */
  readonly shapes: string;
  readonly modes: readonly ('cold' | 'hot')[];
  /** The metric set to profile; "none" means nothing is profiled. */
  readonly metricSet: string;
  /** Whether to compare with the device's champion. */
  readonly champion: boolean;
  readonly fallback: Fallback;
  /** Whether a result that passes may be accepted. */
  readonly acceptable: boolean;
  readonly require: Requirements;
  /** Gates by id. */
  readonly gates: ReadonlyMap<string, PlanGate>;
  /** Level of the gates that the plan does not name. */
  readonly others: GateLevel;
  /** Whether gates that a kernel adds are judged or only shown. */
  readonly ownGates: 'judged' | 'shown';
}

export interface PlanGate {
  readonly level: GateLevel;
  readonly target?: number | undefined;
  readonly op?: GateOperator | undefined;
  readonly why?: string | undefined;
}

/** A gates file: kernels/gates.yaml, or a client's. */
export interface GatesFile {
  readonly gates: readonly Gate[];
  readonly plans: ReadonlyMap<string, Plan>;
  readonly defaultPlan: string;
}
