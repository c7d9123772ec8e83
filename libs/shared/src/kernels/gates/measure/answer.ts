/** What a metric comes to, and what it is read from. */
import type { Shape } from '../../../generated/flashcore/runner/v1/kernel_pb.js';
import type { VariantResult } from '../../../generated/flashcore/runner/v1/result_pb.js';
import type { Cases } from '../../cases.ts';
import type { Metric } from '../metrics.ts';

/**
 * A value with what stands behind it, or why there is none. `source` is set where it is more exact than the gate's own
 * text; `low` and `high` are the ends of its 95 % interval; `partial`: later data may change it; `modelled`: no GPU
 * gave it; `unknown`: the profiler has nothing of that name, so that no run will ever measure it.
 */
export type MetricAnswer =
  | {
      value: number;
      detail: string;
      source?: string;
      low?: number;
      high?: number;
      partial?: boolean;
      modelled?: boolean;
    }
  | { notMeasured: string; source?: string; unknown?: boolean };

/** What gates are evaluated on. */
export interface GateContext {
  variant: VariantResult;
  /** Parity and canonical shapes, and the parity profile. */
  cases: Cases;
  /** Which of title, lesson and NOTES.md the kernel lacks. */
  undocumented: readonly string[];
  /** Why the job compares with no champion; undefined: it does, or did not come to it. */
  noChampion: string | undefined;
  /** Shapes that the job verifies and benchmarks: what counts over them is complete when all were measured. */
  verified: readonly Shape[];
  benchmarked: readonly Shape[];
}

export type Measure = (context: GateContext, metric: Metric, target: number) => MetricAnswer;

export const plural = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;
