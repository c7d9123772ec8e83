/**
 * KernelBench's own figures of stored jobs: eval_results.json, and fast_p over a set of kernels. A problem is a kernel
 * at a shape; a kernel that has no figure is one problem that is not solved.
 */
import type { GetJobResponse } from '@flashcore/shared/contract';
import { fastestSdpa, figuresOf, isMeasured, placeOf, placeTitle, type Figure } from './figures.ts';
import { isRight } from './job-facts.ts';

/** `{"<kernel> <shape>": [sample]}`, milliseconds; hot figures of a GPU alone have a runtime. */
export function evalResults(jobs: readonly GetJobResponse[]): Record<string, unknown[]> {
  const byProblem = Map.groupBy(jobs.flatMap(problemsOf), ({ problem }) => problem);
  return Object.fromEntries(
    [...byProblem].map(([problem, all]) => [
      problem,
      all.map(({ sample }, index) => ({ sample_id: index, ...sampleJson(sample) })),
    ]),
  );
}

interface Sample {
  readonly job: string;
  readonly compiled: boolean;
  readonly correct: boolean;
  readonly figure: Figure | undefined;
}

function problemsOf(response: GetJobResponse): { problem: string; sample: Sample }[] {
  const { job, result } = response;
  const variant = result?.variants.find(({ fallback }) => !fallback);
  const compiled = variant?.build?.succeeded ?? false;
  const sample: Sample = {
    job: job?.name ?? '',
    compiled,
    correct: compiled && variant !== undefined && isRight(variant),
    figure: undefined,
  };
  const figures = figuresOf([response]).filter((each) => !each.variant.fallback && isCounted(each));
  return figures.length === 0
    ? [{ problem: job?.kernelId ?? '', sample }]
    : figures.map((figure) => ({ problem: `${job?.kernelId} ${figure.shape}`, sample: { ...sample, figure } }));
}

const isCounted = (figure: Figure): boolean => figure.mode === 'hot' && isMeasured(figure);

const UNMEASURED = -1;
const MS = 1000;

function sampleJson({ job, compiled, correct, figure }: Sample): Record<string, unknown> {
  const latency = figure?.benchmark.latency;
  return {
    compiled,
    correctness: correct,
    metadata: { job, ...(figure && { protocol: figure.provenance?.protocol, mode: 'hot' }) },
    runtime: latency ? latency.meanUs / MS : UNMEASURED,
    runtime_stats: latency
      ? {
          mean: latency.meanUs / MS,
          std: latency.stddevUs / MS,
          min: latency.minUs / MS,
          max: latency.maxUs / MS,
          num_trials: latency.samples,
          hardware: figure?.provenance?.device?.name ?? '',
          device: figure?.provenance?.device?.deviceId ?? '',
        }
      : {},
  };
}

const THRESHOLDS = ['0.0', '0.5', '0.8', '1.0', '1.5', '2.0'] as const;

/** benchmark_eval_analysis.py's summary, one for each device and protocol: figures of two are never in one. */
export function fastP(jobs: readonly GetJobResponse[]): unknown[] {
  const samples = jobs.flatMap(problemsOf).map(({ sample }) => sample);
  const places = Map.groupBy(
    samples.filter(({ figure }) => figure),
    ({ figure }) => placeTitle(placeOf(figure!)),
  );
  const unsolved = samples.filter(({ figure }) => !figure);
  if (places.size === 0) return unsolved.length === 0 ? [] : [summaryOf('none measured', unsolved)];
  return [...places].map(([place, measured]) => summaryOf(place, [...measured, ...unsolved]));
}

function summaryOf(place: string, samples: readonly Sample[]): unknown {
  const count = samples.length;
  const compiled = samples.filter((each) => each.compiled).length;
  const correct = samples.filter((each) => each.correct);
  const speedups = correct.flatMap((each) => speedupOf(each) ?? []);
  const shares = THRESHOLDS.map((threshold): [string, number] => [
    threshold,
    speedups.filter((speedup) => speedup > Number(threshold)).length / count,
  ]);
  return {
    place,
    baseline: 'the fastest SDPA backend that was measured in turns with the kernel; means',
    total_count: count,
    compiled_count: compiled,
    correct_count: correct.length,
    compilation_rate: compiled / count,
    correctness_rate: correct.length / count,
    // Of no speed-up there is no mean.
    geo_mean_speedup:
      speedups.length === 0
        ? null
        : Math.exp(speedups.reduce((sum, speedup) => sum + Math.log(speedup), 0) / speedups.length),
    fast_p: Object.fromEntries(shares),
    jobs: samples.map(({ job }) => job),
  };
}

/** Means, as KernelBench has it; undefined where no baseline was measured. */
function speedupOf({ figure }: Sample): number | undefined {
  const inTurns = figure?.benchmark.sdpa.filter(({ reused }) => !reused) ?? [];
  const baseline = fastestSdpa({ sdpa: inTurns })?.latency?.meanUs;
  const mean = figure?.benchmark.latency?.meanUs;
  return baseline && mean ? baseline / mean : undefined;
}
