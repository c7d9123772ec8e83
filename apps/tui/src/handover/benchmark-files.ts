/** Figures as the files that services for continuous benchmarking read. */
import type { Figure } from './figures.ts';
import { figureName, isMeasured } from './figures.ts';

const NS_PER_US = 1000;
const US_PER_SECOND = 1e6;

/** github-action-benchmark's customSmallerIsBetter. */
export const actionBenchmark = (figures: readonly Figure[]): unknown =>
  figures.filter(isMeasured).map((figure) => {
    const { latency } = figure.benchmark;
    return {
      name: figureName(figure),
      unit: 'us',
      value: latency!.p50Us,
      range: `${latency!.p50LowUs.toPrecision(4)} to ${latency!.p50HighUs.toPrecision(4)}`,
      extra: `${figure.provenance?.device?.name ?? ''}, ${figure.provenance?.protocol ?? ''}, ${figure.job}`,
    };
  });

/** Bencher's metric format: latency in nanoseconds, with the interval of the median. */
export const bencherMetrics = (figures: readonly Figure[]): unknown =>
  Object.fromEntries(
    figures.filter(isMeasured).map((figure) => {
      const { p50Us, p50LowUs, p50HighUs } = figure.benchmark.latency!;
      const latency = {
        value: p50Us * NS_PER_US,
        lower_value: p50LowUs * NS_PER_US,
        upper_value: p50HighUs * NS_PER_US,
      };
      return [figureName(figure), { latency }];
    }),
  );

/** hyperfine's export, in seconds; it has no samples where they were not fetched. */
export const hyperfineResults = (figures: readonly Figure[]): unknown => ({
  results: figures.filter(isMeasured).map((figure) => {
    const { latency } = figure.benchmark;
    const seconds = (us: number): number => us / US_PER_SECOND;
    return {
      command: figureName(figure),
      mean: seconds(latency!.meanUs),
      stddev: seconds(latency!.stddevUs),
      median: seconds(latency!.p50Us),
      user: 0,
      system: 0,
      min: seconds(latency!.minUs),
      max: seconds(latency!.maxUs),
      times: [],
      exit_codes: [],
      parameters: { job: figure.job, shape: figure.shape, mode: figure.mode },
    };
  }),
});
