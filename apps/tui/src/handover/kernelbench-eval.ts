/**
 * Stored jobs in KernelBench's terms: eval_results.json, and fast_p over a set of kernels. A problem is a kernel at a
 * shape; a kernel without a figure is one unsolved problem.
 */
import type { GetJobResponse } from '@flashcore/shared/contract';
import { fastestSdpa, figuresOf, isMeasured, placeOf, placeTitle, type Figure } from './figures.ts';
import { isRight } from './job-facts.ts';

/** The job label that contains the id of the KernelBench problem. */
const PROBLEM_LABEL = 'problem_id';
const PROBLEM_ID = /^[1-9]\d{0,8}$/;

/**
 * `{"<problem id>": [sample]}`, in milliseconds. Only hot GPU figures have a runtime. KernelBench's analysis looks
 * problems up by number, so the key is the number in the job's label or, without a label, the next number that no label
 * uses.
 */
export function evalResults(jobs: readonly GetJobResponse[]): Record<string, unknown[]> {
  const problems = jobs.flatMap(problemsOf);
  const taken = new Set(problems.map(({ id }) => id));
  const numbers = new Map<string, string>();
  let last = 0;
  const numberOf = (problem: string): string => {
    const known = numbers.get(problem);
    if (known !== undefined) return known;
    do last += 1;
    while (taken.has(String(last)));
    numbers.set(problem, String(last));
    return String(last);
  };
  const results = Map.groupBy(problems, ({ id, problem }) => id ?? numberOf(problem));
  return Object.fromEntries(
    [...results].map(([id, samples]) => [
      id,
      samples.map(({ problem, sample }, index) => ({ sample_id: index, ...sampleJson(problem, sample) })),
    ]),
  );
}

interface Sample {
  readonly job: string;
  readonly compiled: boolean;
  readonly correct: boolean;
  readonly figure: Figure | undefined;
}

interface Problem {
  /** KernelBench's problem id, from the job's label. */
  readonly id: string | undefined;
  /** A problem such as "flashcore_v11 2x8x512x64". */
  readonly problem: string;
  readonly sample: Sample;
}

function problemsOf(response: GetJobResponse): Problem[] {
  const { job, result } = response;
  const label = job?.labels[PROBLEM_LABEL] ?? '';
  const id = PROBLEM_ID.test(label) ? label : undefined;
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
    ? [{ id, problem: job?.kernelId ?? '', sample }]
    : figures.map((figure) => ({ id, problem: `${job?.kernelId} ${figure.shape}`, sample: { ...sample, figure } }));
}

const isCounted = (figure: Figure): boolean => figure.mode === 'hot' && isMeasured(figure);

const UNMEASURED = -1;
const MS = 1000;

function sampleJson(problem: string, { job, compiled, correct, figure }: Sample): Record<string, unknown> {
  const latency = figure?.benchmark.latency;
  return {
    compiled,
    correctness: correct,
    metadata: { problem, job, ...(figure && { protocol: figure.provenance?.protocol, mode: 'hot' }) },
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

/**
 * The summary of benchmark_eval_analysis.py. There is one for each device and protocol, because their figures must not
 * be mixed.
 */
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
  // If no speedup was measured, neither the shares nor the mean can be computed.
  const timed = speedups.length > 0;
  const shares = THRESHOLDS.map((threshold): [string, number | null] => [
    threshold,
    timed ? speedups.filter((speedup) => speedup > Number(threshold)).length / count : null,
  ]);
  return {
    place,
    baseline: 'the fastest SDPA backend that was measured in turns with the kernel; means',
    total_count: count,
    compiled_count: compiled,
    correct_count: correct.length,
    compilation_rate: compiled / count,
    correctness_rate: correct.length / count,
    geo_mean_speedup: timed
      ? Math.exp(speedups.reduce((sum, speedup) => sum + Math.log(speedup), 0) / speedups.length)
      : null,
    fast_p: Object.fromEntries(shares),
    jobs: samples.map(({ job }) => job),
  };
}

/** Ratio of means, as in KernelBench; undefined if no baseline was measured. */
function speedupOf({ figure }: Sample): number | undefined {
  const inTurns = figure?.benchmark.sdpa.filter(({ reused }) => !reused) ?? [];
  const baseline = fastestSdpa({ sdpa: inTurns })?.latency?.meanUs;
  const mean = figure?.benchmark.latency?.meanUs;
  return baseline && mean ? baseline / mean : undefined;
}
