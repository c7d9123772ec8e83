/** The value of a metric, and the data from which it is read. */
import type { Shape } from '../../../generated/flashcore/runner/v1/kernel_pb.js';
import type { VariantResult } from '../../../generated/flashcore/runner/v1/result_pb.js';
import type { Cases } from '../../cases.ts';
import type { Metric } from '../metrics.ts';

/**
 * A value with its evidence, or why there is no value. `source` is set if it is more exact than the gate's own
 * text. `low` and `high` are the ends of the value's 95 % interval. `partial`: later data may change the value.
 * `modelled`: the value does not come from a GPU. `unknown`: the profiler has no such metric, so no run will ever
 * measure it.
 */
export type MetricAnswer =
  | {
      value: number;
      detail: string;
      source?: string;
      /** The measured shape, if it is the worst of several. */
      shape?: string;
      low?: number;
      high?: number;
      partial?: boolean;
      modelled?: boolean;
    }
  | { notMeasured: string; source?: string; unknown?: boolean };

/** The data that gates are evaluated on. */
export interface GateContext {
  variant: VariantResult;
  /** Parity and canonical shapes, and the parity profile. */
  cases: Cases;
  /** The documentation that the kernel lacks: title, lesson or NOTES.md. */
  undocumented: readonly string[];
  /** Why the job does not compare with a champion; undefined if it does, or ended before the comparison. */
  noChampion: string | undefined;
  /** Shapes that the job verifies and benchmarks. A count over these shapes is complete when all were measured. */
  verified: readonly Shape[];
  benchmarked: readonly Shape[];
}

export type Measure = (context: GateContext, metric: Metric, target: number) => MetricAnswer;

export const plural = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;
