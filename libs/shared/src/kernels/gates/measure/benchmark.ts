/** Metrics of a benchmark. */
import { TIMING_MODES } from '../../../contract/names.ts';
import type { Shape } from '../../../generated/flashcore/runner/v1/kernel_pb.js';
import {
  type BenchmarkResult,
  type LatencyStatistics,
  type SdpaResult,
  StopReason,
  ComparisonVerdict,
  type RatioInterval,
} from '../../../generated/flashcore/runner/v1/result_pb.js';
import { isSdpa } from '../../../data/rivals.ts';
import { EMULATOR_TIMES } from '../../../text/numbers.ts';
import type { Cases } from '../../cases.ts';
import { formatShape, sameShape } from '../../shape.ts';
import type { Metric } from '../metrics.ts';
import { shapesNamed } from '../plan-gates.ts';
import { type GateContext, type Measure, type MetricAnswer, plural } from './answer.ts';
import { entryOf } from '../../../text/entry-of.ts';

/** Metrics for which less is better; for all others more is better. Needed to find the worst of several shapes. */
const LESS_IS_BETTER = new Set(['latency_us', 'dropped_percent', 'legacy_loop_us']);

export const measureBenchmark: Measure = (context, metric, target) => {
  const { benchmarks } = context.variant;
  if (benchmarks.length === 0) return { notMeasured: 'the kernel was not benchmarked' };
  if (metric.name === 'shapes_10_percent_faster_than_sdpa') return shapesFasterThanSdpa(context, metric, target);
  const mode = metric.mode ?? 'cold';
  const wanted = shapesNamed(metric.shape ?? 'canonical', context.cases);
  const results = wanted.map((shape) => ({
    shape,
    result: benchmarks.find((each) => each.mode === TIMING_MODES[mode] && each.shape && sameShape(each.shape, shape)),
  }));
  const lacking = results.find(({ result }) => unusable(result) !== undefined);
  // On the emulator no shape can be judged, so do not name the missing shape.
  if (lacking && !lacking.result && benchmarks.every(({ simulated }) => simulated))
    return { notMeasured: EMULATOR_TIMES };
  if (lacking)
    return {
      notMeasured: lacking.result
        ? unusable(lacking.result)!
        : `${formatShape(lacking.shape)} was not benchmarked ${mode}`,
    };
  const answers = results.map(({ result }) => answerOf(result!, metric, mode));
  const missing = answers.find((answer) => 'notMeasured' in answer);
  if (missing) return missing;
  const sign = LESS_IS_BETTER.has(metric.name) ? -1 : 1;
  return (answers as Extract<MetricAnswer, { value: number }>[]).reduce((a, b) =>
    sign * b.value < sign * a.value ? b : a,
  );
};

/** Why a benchmark may not be judged; undefined if it may. */
function unusable(result: BenchmarkResult | undefined): string | undefined {
  if (!result?.latency) return 'it was not benchmarked';
  if (result.simulated) return EMULATOR_TIMES;
  if (result.stopReason === StopReason.TIMED_OUT)
    return 'sampling ran into its time limit before the interval of the median was narrow enough';
  if (!result.valid) return result.invalidReason || 'the measurement is not valid';
  return undefined;
}

function answerOf(result: BenchmarkResult, metric: Metric, mode: string): MetricAnswer {
  const answer = valueOf(result, metric);
  if (!('value' in answer)) return answer;
  return { ...answer, detail: [`${formatShape(result.shape!)} ${mode}`, answer.detail].filter(Boolean).join('; ') };
}

const LATENCY: Readonly<Record<string, (latency: LatencyStatistics) => number>> = {
  p50: ({ p50Us }) => p50Us,
  p10: ({ p10Us }) => p10Us,
  p25: ({ p25Us }) => p25Us,
  p75: ({ p75Us }) => p75Us,
  p90: ({ p90Us }) => p90Us,
  p95: ({ p95Us }) => p95Us,
  p99: ({ p99Us }) => p99Us,
  mean: ({ meanUs }) => meanUs,
  stddev: ({ stddevUs }) => stddevUs,
  min: ({ minUs }) => minUs,
  max: ({ maxUs }) => maxUs,
  p50_low: ({ p50LowUs }) => p50LowUs,
  p50_high: ({ p50HighUs }) => p50HighUs,
};
/**
 * Minimum number of samples for each latency figure. With fewer than 1 / (1 - p) samples, a percentile tells no
 * more than the greatest sample. With fewer than five, the interval from the least to the greatest contains the median
 * less than 93 % of the time.
 */
export const FEWEST_SAMPLES = { interval: 5, p90: 10, p95: 20, p99: 100, deviation: 2 } as const;

const { interval: LEAST_OF_INTERVAL, deviation, ...PERCENTILES } = FEWEST_SAMPLES;
const LEAST_SAMPLES: Readonly<Record<string, number>> = {
  ...PERCENTILES,
  stddev: deviation,
  p50_low: LEAST_OF_INTERVAL,
  p50_high: LEAST_OF_INTERVAL,
};

function latencyOf({ latency }: BenchmarkResult, statistic: string): MetricAnswer {
  const { samples, p50LowUs, p50HighUs } = latency!;
  const least = entryOf(LEAST_SAMPLES, statistic) ?? 1;
  if (samples < least) return { notMeasured: `${plural(samples, 'sample')} give no ${statistic}: ${least} are needed` };
  const value = entryOf(LATENCY, statistic)!(latency!);
  if (samples < LEAST_OF_INTERVAL) return { value, detail: plural(samples, 'sample') };
  return {
    value,
    detail: `${plural(samples, 'sample')}, 95 % interval of the median ${p50LowUs.toFixed(2)} to ${p50HighUs.toFixed(2)} us`,
    ...(statistic === 'p50' && { low: p50LowUs, high: p50HighUs }),
  };
}

const present = (value: number | undefined, missing: string): MetricAnswer =>
  value === undefined || !Number.isFinite(value) ? { notMeasured: missing } : { value, detail: '' };

function valueOf(result: BenchmarkResult, { name, statistic, backend }: Metric): MetricAnswer {
  const { latency, conditions } = result;
  switch (name) {
    case 'latency_us':
      return latencyOf(result, statistic ?? 'p50');
    case 'speedup_vs_sdpa':
      return speedupOf(result, { statistic: statistic ?? 'ratio', backend });
    case 'tflops':
      return present(result.tflops, 'the rate is not known');
    case 'gb_per_second':
      return present(result.gbPerSecond, 'the rate is not known');
    case 'roofline_percent':
      return present(result.rooflinePercent, 'no data sheet for the device');
    case 'sm_clock_mhz':
      return present(conditions?.smClockMhz, conditions?.notMeasured || 'the SM clock was not measured');
    case 'dropped_percent':
      return present((100 * latency!.dropped) / (latency!.samples + latency!.dropped), 'no sample');
    case 'legacy_loop_us':
      return present(result.legacyLoop?.meanUs, 'the legacy loop was not measured: run with --legacy-loop');
    default:
      return present(latency!.samples, 'no sample');
  }
}

const sdpaBackends = ({ sdpa }: BenchmarkResult) => sdpa.filter(isSdpa);

/** Speedup over the fastest SDPA backend, which gives the smallest speedup. */
function speedupOf(
  result: BenchmarkResult,
  { statistic, backend }: { statistic: string; backend: string | undefined },
): MetricAnswer {
  const backends = sdpaBackends(result).filter(({ name }) => backend === undefined || name === `sdpa/${backend}`);
  const least = backends.reduce<SdpaResult | undefined>(
    (found, each) => (!found || each.speedup < found.speedup ? each : found),
    undefined,
  );
  if (!least)
    return {
      notMeasured: result.sdpaMissing || (backend ? `sdpa/${backend} was not measured` : 'no SDPA was measured'),
    };
  const { speedup, speedupLow, speedupHigh, name } = least;
  const figures: Record<string, number> = { ratio: speedup, low: speedupLow, high: speedupHigh };
  return {
    value: entryOf(figures, statistic)!,
    detail: `${backend === undefined ? 'fastest backend ' : ''}${name}, 95 % interval ${speedupLow.toFixed(3)} to ${speedupHigh.toFixed(3)}`,
    low: speedupLow,
    high: speedupHigh,
  };
}

/** The compared shapes, then up to `more` other shapes from the canonical and parity sets. */
function moreShapes({ sets: { canonical, parity } }: Cases, compared: readonly Shape[], more: number): Shape[] {
  const others = [...canonical, ...parity].filter(
    (shape, index, all) =>
      all.findIndex((each) => sameShape(each, shape)) === index && !compared.some((each) => sameShape(each, shape)),
  );
  return [...compared, ...others.slice(0, more)];
}

const MARGIN = 1.1;

function shapesFasterThanSdpa(
  { variant: { benchmarks }, cases, benchmarked }: GateContext,
  { mode = 'cold' }: Metric,
  target: number,
): MetricAnswer {
  const measured = benchmarks.filter((each) => each.mode === TIMING_MODES[mode]);
  if (measured.length === 0) return { notMeasured: `no shape was benchmarked ${mode}` };
  if (measured.every(({ simulated }) => simulated)) return { notMeasured: EMULATOR_TIMES };
  const usable = measured.filter((result) => unusable(result) === undefined);
  if (usable.length === 0) return { notMeasured: unusable(measured[0])! };
  const compared = usable.filter((result) => sdpaBackends(result).length > 0);
  if (compared.length === 0) return { notMeasured: usable[0]!.sdpaMissing || 'no SDPA was measured' };
  const faster = compared.filter((result) => sdpaBackends(result).every(({ speedupLow }) => speedupLow >= MARGIN));
  // There are too few measured shapes to decide.
  if (faster.length < target && compared.length < target) {
    const more = moreShapes(
      cases,
      compared.map(({ shape }) => shape!),
      target - compared.length,
    );
    return {
      notMeasured: `compared on ${plural(compared.length, 'shape')}, and the gate wants ${target}: run with ${more.map((shape) => `--shape ${formatShape(shape)}`).join(' ')}`,
    };
  }
  return {
    value: faster.length,
    detail: `of ${compared.length} shapes compared ${mode}${faster.length > 0 ? `: ${faster.map(({ shape }) => formatShape(shape!)).join(', ')}` : ''}`,
    partial: measured.length < benchmarked.length,
  };
}

const RATIOS: Readonly<Record<string, (ratio: RatioInterval) => number>> = {
  ratio: ({ ratio }) => ratio,
  low: ({ low }) => low,
  high: ({ high }) => high,
};

/**
 * Reads the job's interleaved comparison. A shape's value is its value in time or in cycles, whichever is smaller. Over
 * all shapes, a ratio gate uses the least value (no shape may be slower), and a gate on an interval's end uses the
 * greatest (one shape must be faster). Figures stored on other days are not used.
 */
export const measureHistory: Measure = ({ variant: { comparison }, noChampion }, { statistic = 'ratio' }) => {
  if (!comparison) return { notMeasured: noChampion ?? 'the job did not come to the comparison with the champion' };
  const source = `interleaved with ${comparison.champion?.label ?? 'the champion'} in this job`;
  if (comparison.verdict === ComparisonVerdict.NOT_JUDGED) return { notMeasured: comparison.reason, source };
  const values = comparison.shapes.flatMap((each) =>
    [each.time, each.cycles].flatMap((ratio) =>
      ratio ? [{ value: entryOf(RATIOS, statistic)!(ratio), ratio, shape: each.shape!, reason: each.reason }] : [],
    ),
  );
  const ofShape = [...Map.groupBy(values, ({ shape }) => formatShape(shape)).values()].map((all) =>
    all.reduce((a, b) => (b.value < a.value ? b : a)),
  );
  const least = statistic === 'ratio';
  const chosen = ofShape.reduce((a, b) => ((least ? b.value < a.value : b.value > a.value) ? b : a));
  return {
    value: chosen.value,
    detail: `${formatShape(chosen.shape)}: ${chosen.reason}`,
    source,
    low: chosen.ratio.low,
    high: chosen.ratio.high,
  };
};
