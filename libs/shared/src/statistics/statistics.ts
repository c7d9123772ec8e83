/**
 * Statistics of latency samples.
 *
 * Quantiles: linear interpolation between order statistics at h = (n - 1) p ("type 7" of Hyndman and Fan 1996; the
 * default of NumPy and R).
 *
 * Intervals: bootstrap percentile intervals of the median. The median of a resample depends only on the ranks of its
 * middle order statistics. These ranks follow those of uniform order statistics, whose joint distribution is known
 * (beta). So each resample is drawn exactly in constant time, without drawing n samples. The seed is fixed, so the same
 * samples give the same interval.
 */
import { create } from '@bufbuild/protobuf';
import {
  type Histogram,
  HistogramSchema,
  type LatencyStatistics,
  LatencyStatisticsSchema,
} from '../generated/flashcore/runner/v1/result_pb.js';
import { Random } from './random.ts';

const RESAMPLES = 4_000;
const DEFAULT_SEED = 0x666c_6173;
const MOST_BINS = 64;
// Samples farther than this many interquartile ranges outside the quartiles go to underflow and overflow, so that one
// stalled launch does not squeeze the rest into one bin.
const FENCE_IQRS = 6;

export interface Interval {
  readonly low: number;
  readonly high: number;
}
export interface IntervalOptions {
  confidence?: number;
  seed?: number;
}

/**
 * The statistics of samples in microseconds. `dropped` is the number of samples that were left out before. All zero if
 * there are no samples.
 */
export function describe(
  samples: ArrayLike<number>,
  { dropped = 0, ...options }: IntervalOptions & { dropped?: number } = {},
): LatencyStatistics {
  if (samples.length === 0) return create(LatencyStatisticsSchema, { dropped });
  const sorted = sortedCopy(samples);
  const at = (share: number) => quantileOfSorted(sorted, share);
  const interval = medianIntervalOfSorted(sorted, options);
  const { mean, stddev } = moments(sorted);
  return create(LatencyStatisticsSchema, {
    samples: sorted.length,
    dropped,
    minUs: sorted[0]!,
    p10Us: at(0.1),
    p25Us: at(0.25),
    p50Us: at(0.5),
    p75Us: at(0.75),
    p90Us: at(0.9),
    p95Us: at(0.95),
    p99Us: at(0.99),
    maxUs: sorted.at(-1)!,
    meanUs: mean,
    stddevUs: stddev,
    p50LowUs: interval.low,
    p50HighUs: interval.high,
  });
}

/**
 * Whether there are enough samples to tell a percentile from the greatest sample: 1 / (1 - share), which is 100 for the
 * 99th.
 */
export const knowsPercentile = (samples: number, share: number): boolean => samples * (1 - share) >= 1 - 1e-9;

/** The quantile of unsorted samples at `share` of 0 to 1. */
export const quantile = (samples: ArrayLike<number>, share: number): number =>
  quantileOfSorted(sortedCopy(samples), share);

export const median = (samples: ArrayLike<number>): number => quantile(samples, 0.5);

/** 95 % bootstrap percentile interval of the median. */
export const medianInterval = (samples: ArrayLike<number>, options: IntervalOptions = {}): Interval =>
  medianIntervalOfSorted(sortedCopy(samples), options);

/**
 * median(numerator) / median(denominator) with its 95 % bootstrap percentile interval. The two are resampled
 * independently. For a speedup, the numerator is SDPA and the denominator is the candidate.
 */
export function ratioInterval(
  numerator: ArrayLike<number>,
  denominator: ArrayLike<number>,
  { confidence = 0.95, seed = DEFAULT_SEED }: IntervalOptions = {},
): Interval & { readonly ratio: number } {
  const [above, below] = [sortedCopy(numerator), sortedCopy(denominator)];
  const random = new Random(seed);
  const ratios = Float64Array.from(
    { length: RESAMPLES },
    () => resampledMedian(above, random) / resampledMedian(below, random),
  ).sort();
  return { ratio: quantileOfSorted(above, 0.5) / quantileOfSorted(below, 0.5), ...tails(ratios, confidence) };
}

/**
 * Counts samples in at most 64 bins of equal width, by the rule of Freedman and Diaconis (2 IQR n^(-1/3)) unless `bins`
 * is given. Far outliers go to underflow and overflow. Counts, underflow and overflow sum up to the number of samples.
 */
export function histogram(samples: ArrayLike<number>, bins?: number): Histogram {
  if (samples.length === 0) return create(HistogramSchema);
  const sorted = sortedCopy(samples);
  const { low, high } = fences(sorted);
  const count =
    bins === undefined ? freedmanDiaconisBins(sorted, high - low) : Math.min(MOST_BINS, Math.max(1, Math.round(bins)));
  // If all samples are equal, there is one bin around them, wide enough for its ends to differ in double precision.
  const width = high > low ? (high - low) / count : Math.max(Math.abs(low) * 1e-3, 1e-3);
  const counts = new Array<number>(high > low ? count : 1).fill(0);
  let [underflow, overflow] = [0, 0];
  for (const sample of sorted) {
    if (sample < low) ++underflow;
    else if (sample > high) ++overflow;
    else counts[Math.min(counts.length - 1, Math.floor((sample - low) / width))]! += 1;
  }
  return create(HistogramSchema, { lowUs: low, binWidthUs: width, counts, underflow, overflow });
}

function fences(sorted: Float64Array): Interval {
  const [q1, q3] = [quantileOfSorted(sorted, 0.25), quantileOfSorted(sorted, 0.75)];
  const reach = FENCE_IQRS * (q3 - q1);
  // The quartiles of coarse clocks can coincide; then only the extremes bound the bins.
  if (reach === 0) return { low: sorted[0]!, high: sorted.at(-1)! };
  return { low: Math.max(sorted[0]!, q1 - reach), high: Math.min(sorted.at(-1)!, q3 + reach) };
}

function freedmanDiaconisBins(sorted: Float64Array, range: number): number {
  const width = (2 * (quantileOfSorted(sorted, 0.75) - quantileOfSorted(sorted, 0.25))) / Math.cbrt(sorted.length);
  return Math.min(MOST_BINS, Math.max(1, width > 0 ? Math.ceil(range / width) : Math.ceil(Math.sqrt(sorted.length))));
}

function medianIntervalOfSorted(
  sorted: Float64Array,
  { confidence = 0.95, seed = DEFAULT_SEED }: IntervalOptions,
): Interval {
  const random = new Random(seed);
  return tails(Float64Array.from({ length: RESAMPLES }, () => resampledMedian(sorted, random)).sort(), confidence);
}

/** The median of a resample with replacement, drawn from the distribution of its ranks. */
function resampledMedian(sorted: Float64Array, random: Random): number {
  const n = sorted.length;
  const k = Math.floor((n + 1) / 2);
  const lower = random.beta(k, n - k + 1);
  const first = sorted[Math.min(n - 1, Math.floor(lower * n))]!;
  if (n % 2 === 1) return first;
  // Given the k-th of n uniforms, the next one is the minimum of n - k uniforms on the remaining interval.
  const upper = lower + (1 - lower) * (1 - (1 - random.uniform()) ** (1 / (n - k)));
  return (first + sorted[Math.min(n - 1, Math.floor(upper * n))]!) / 2;
}

function tails(sorted: Float64Array, confidence: number): Interval {
  return { low: quantileOfSorted(sorted, (1 - confidence) / 2), high: quantileOfSorted(sorted, (1 + confidence) / 2) };
}

function quantileOfSorted(sorted: Float64Array, share: number): number {
  const h = (sorted.length - 1) * share;
  const below = sorted[Math.floor(h)]!;
  return below + (h - Math.floor(h)) * (sorted[Math.ceil(h)]! - below);
}

/** Mean and sample standard deviation (n - 1), computed around the first sample so that large common parts cancel. */
function moments(samples: Float64Array): { mean: number; stddev: number } {
  const n = samples.length;
  const shift = samples[0]!;
  const mean = shift + samples.reduce((sum, sample) => sum + (sample - shift), 0) / n;
  const squares = samples.reduce((sum, sample) => sum + (sample - mean) ** 2, 0);
  return { mean, stddev: n > 1 ? Math.sqrt(squares / (n - 1)) : 0 };
}

function sortedCopy(samples: ArrayLike<number>): Float64Array {
  if (samples.length === 0) throw new RangeError('There must be at least one sample, got none');
  const copy = Float64Array.from(samples).sort();
  // Sorting puts NaN last.
  if (!Number.isFinite(copy.at(-1)!) || !Number.isFinite(copy[0]!))
    throw new RangeError('Samples must be finite, got NaN or an infinity');
  return copy;
}
