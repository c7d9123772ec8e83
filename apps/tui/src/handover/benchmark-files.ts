/** Figures in the file formats of services for continuous benchmarking. */
import { type Figure, figureName, isMeasured, placeOf, placeTitle } from './figures.ts';

const NS_PER_US = 1000;
const US_PER_SECOND = 1e6;

/** GPU figures with their names. If there are several devices or protocols, the names include them. */
function named(figures: readonly Figure[]): { figure: Figure; name: string }[] {
  const measured = figures.filter(isMeasured).map((figure) => ({ figure, place: placeTitle(placeOf(figure)) }));
  const places = new Set(measured.map(({ place }) => place)).size;
  return measured.map(({ figure, place }) => ({
    figure,
    name: places > 1 ? `${figureName(figure)} (${place})` : figureName(figure),
  }));
}

/** Figures in the format customSmallerIsBetter of github-action-benchmark. */
export const actionBenchmark = (figures: readonly Figure[]): unknown =>
  named(figures).map(({ figure, name }) => {
    const { latency } = figure.benchmark;
    return {
      name,
      unit: 'us',
      value: latency!.p50Us,
      range: `${latency!.p50LowUs.toPrecision(4)} to ${latency!.p50HighUs.toPrecision(4)}`,
      extra: `${figure.provenance?.device?.name ?? ''}, ${figure.provenance?.protocol ?? ''}, ${figure.job}`,
    };
  });

/** Figures in Bencher's metric format: latency in nanoseconds, with the interval of the median. */
export const bencherMetrics = (figures: readonly Figure[]): unknown =>
  Object.fromEntries(
    named(figures).map(({ figure, name }) => {
      const { p50Us, p50LowUs, p50HighUs } = figure.benchmark.latency!;
      const latency = {
        value: p50Us * NS_PER_US,
        lower_value: p50LowUs * NS_PER_US,
        upper_value: p50HighUs * NS_PER_US,
      };
      return [name, { latency }];
    }),
  );

/** Figures in the format of hyperfine's export: in seconds, without samples if they were not fetched. */
export const hyperfineResults = (figures: readonly Figure[]): unknown => ({
  results: named(figures).map(({ figure, name }) => {
    const { latency } = figure.benchmark;
    const { device, protocol } = placeOf(figure);
    const seconds = (us: number): number => us / US_PER_SECOND;
    return {
      command: name,
      mean: seconds(latency!.meanUs),
      stddev: seconds(latency!.stddevUs),
      median: seconds(latency!.p50Us),
      user: 0,
      system: 0,
      min: seconds(latency!.minUs),
      max: seconds(latency!.maxUs),
      times: [],
      exit_codes: [],
      parameters: { job: figure.job, shape: figure.shape, mode: figure.mode, device, protocol },
    };
  }),
});
