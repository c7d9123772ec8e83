/** A gate: what is measured, how it is compared, and how much its answer counts. */
import type { TensorDtype } from '../../data/dtype.ts';
import type { GatePhase, Metric } from './metrics.ts';

/** hard: a fail rejects the kernel; warn: a fail is shown; off: the value is shown and not judged. */
export type GateLevel = 'hard' | 'warn' | 'off';
export const OPERATORS = ['<=', '>=', '<', '>', '=='] as const;
export type GateOperator = (typeof OPERATORS)[number];

/** What a gate of gates.yaml, or a kernel's own, asks; without the level that a plan gives it. */
export interface Gate {
  readonly id: string;
  readonly title: string;
  readonly phase: GatePhase;
  /** Empty metric name: a group, which passes when one of `anyOf` does. */
  readonly metric: Metric;
  readonly anyOf: readonly string[];
  readonly op: GateOperator;
  readonly target: number;
  readonly unit: string;
  readonly source: string;
  readonly why: string;
  /** In order: the last that fits the architecture replaces target, level or why. */
  readonly overrides: readonly ArchOverride[];
}

export interface ArchOverride {
  readonly archs: readonly string[];
  readonly target?: number | undefined;
  readonly level?: GateLevel | undefined;
  readonly why?: string | undefined;
}

/** What a kernel's manifest says about gates: another target or level for one of the file's, or a gate of its own. */
export interface OwnGate {
  readonly id: string;
  readonly why: string;
  /** Empty: every architecture. */
  readonly archs: readonly string[];
  /** Empty: every plan. */
  readonly plans: readonly string[];
  readonly level: GateLevel | undefined;
  readonly target: number | undefined;
  readonly op: GateOperator | undefined;
  /** Set where the manifest says what is measured: all of a gate that the file may not have. */
  readonly gate: Gate | undefined;
}

/** A gate as a plan judges it for one kernel. */
export interface PlannedGate extends Gate {
  readonly level: GateLevel;
  /** Why the kernel's own manifest gives it another target or level; undefined: it does not. */
  readonly ownReason: string | undefined;
}

/** What the precheck requires, before a build. */
export interface Requirements {
  /** Any of these dtypes; undefined: all. */
  readonly inputs?: readonly TensorDtype[] | undefined;
  readonly accumulate?: 'fp16' | 'fp32' | undefined;
  /** S and D are multiples of it, or the kernel masks what is not. */
  readonly multipleOf?: number | undefined;
  /** A causal shape reaches a launch that is told so. */
  readonly causal: boolean;
  /** The tensor cores can be turned off, or the manifest says why not. */
  readonly toggle: boolean;
}

export type Fallback = 'beside' | 'continue' | 'none';

/** What an experiment needs, which gates it judges at which level, and what a failed toggle does. */
export interface Plan {
  readonly name: string;
  readonly title: string;
  readonly about: string;
  readonly from: string;
  /** Case set that is verified. */
  readonly cases: string;
  /** Case set that is benchmarked; "none": nothing is. */
  readonly shapes: string;
  readonly modes: readonly ('cold' | 'hot')[];
  /** "none": nothing is profiled. */
  readonly metricSet: string;
  /** Compare with the device's champion. */
  readonly champion: boolean;
  readonly fallback: Fallback;
  /** A result that passes may be accepted. */
  readonly acceptable: boolean;
  readonly require: Requirements;
  /** By id. */
  readonly gates: ReadonlyMap<string, PlanGate>;
  /** Level of the gates that the plan does not name. */
  readonly others: GateLevel;
  /** Gates that a kernel adds: judged, or shown alone. */
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
