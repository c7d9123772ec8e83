/** Tables of the ladder's runs on one host: latency next to SDPA's, counters, and ncu's time next to ours. */
import {
  TimingMode,
  type BenchmarkResult,
  type GetJobResponse,
  type SdpaResult,
  type VariantResult,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { figure, type Table } from './markdown.ts';
import { textOf } from './results.ts';

/** One of our times, and the file with ncu's time of the same launch. */
interface TimedByNcu {
  us: number;
  how: string;
  file: string;
}

interface NamedVariant {
  name: string;
  variant: VariantResult;
}

export const benchmarksOf = (runs: readonly GetJobResponse[]): BenchmarkResult[] =>
  runs.flatMap(({ result }) => result!.variants.flatMap((variant) => variant.benchmarks));

/** The shapes that were timed, without duplicates. */
export const shapesOf = (runs: readonly GetJobResponse[]): string =>
  [...new Set(benchmarksOf(runs).map(({ shape }) => formatShape(shape!)))].join(', ');

export function latencyRows(runs: readonly GetJobResponse[]): Table {
  return [
    [
      'kernel',
      'cold',
      'hot',
      'interval of hot',
      'SDPA flash hot',
      'SDPA cuDNN hot',
      'against the fastest, hot',
      'against the fastest, cold',
    ],
    ...variantsOf(runs).map(({ name, variant }) => {
      const [cold, hot] = [benchmarkOf(variant, TimingMode.COLD), benchmarkOf(variant, TimingMode.HOT)];
      return [
        name,
        figure(cold?.latency?.p50Us),
        figure(hot?.latency?.p50Us),
        hot ? `${figure(hot.latency?.p50LowUs)} to ${figure(hot.latency?.p50HighUs)}` : '',
        figure(sdpaUs(hot, 'flash')),
        figure(sdpaUs(hot, 'cudnn')),
        `${figure(fastestSdpa(hot)?.speedup, 3)}x`,
        `${figure(fastestSdpa(cold)?.speedup, 3)}x`,
      ];
    }),
  ];
}

const COUNTERS = [
  ['gpu_time_us', 'time, us'],
  ['tensor_pipe_percent', 'tensor pipe, %'],
  ['dram_throughput_percent', 'DRAM, %'],
  ['smem_bank_conflict_percent', 'bank conflicts, %'],
  ['sm_busy_percent', 'busiest pipe, %'],
  ['registers_per_thread', 'registers'],
  ['resident_ctas_per_sm', 'CTAs/SM'],
] as const;

/** Warps in these states do not stall: they were selected, or could have been. */
const NO_STALLS = ['selected', 'not_selected'];

export function counterRows(runs: readonly GetJobResponse[]): Table {
  return [
    ['kernel', ...COUNTERS.map(([, title]) => title), 'largest stall'],
    ...variantsOf(runs).map(({ name, variant: { profile } }) => [
      name,
      ...COUNTERS.map(([counter]) => {
        const value = profile?.metrics.find((metric) => metric.name === counter)?.value;
        return figure(value, Number.isInteger(value) ? 0 : 2);
      }),
      profile?.stalls.find((stall) => !NO_STALLS.includes(stall.name))?.name ?? '',
    ]),
  ];
}

/** ncu's times next to ours. Undefined if flashcore_v6 was not run. */
export function ncuRows(folder: string, runs: readonly GetJobResponse[]): Table {
  const variant = variantsOf(runs).find(({ name }) => name === 'flashcore_v6 USE_WMMA=1')?.variant;
  if (!variant) return undefined;
  const [cold, hot] = [benchmarkOf(variant, TimingMode.COLD)!, benchmarkOf(variant, TimingMode.HOT)!];
  const row = (what: string, { us, how, file }: TimedByNcu): string[] => {
    const ncuUs = lastNcuUs(folder, file);
    const ours = figure(us);
    return [what, ours, how, figure(ncuUs), figure(ncuUs && Number(ours) / ncuUs, 3)];
  };
  return [
    ['', 'ours, us', 'what', 'ncu gpu__time_duration, us', 'ours over ncu'],
    row('caches flushed', {
      us: cold.latency!.p50Us - cold.eventOverheadUs,
      how: 'cold, less an empty event pair',
      file: 'ncu.time.cache-all.csv',
    }),
    row('caches warm', { us: hot.latency!.p50Us, how: 'hot', file: 'ncu.time.cache-none.csv' }),
  ];
}

function lastNcuUs(folder: string, file: string): number | undefined {
  const times = (textOf(folder, file) ?? '').matchAll(/"gpu__time_duration.sum","ns","([\d,]+)"/g);
  const last = [...times].at(-1);
  return last && Number(last[1]!.replaceAll(',', '')) / 1000;
}

const variantsOf = (runs: readonly GetJobResponse[]): NamedVariant[] =>
  runs.flatMap(({ result }) =>
    result!.variants.map((variant) => ({
      name: `${kernelOf(variant)} ${variant.label === 'default' ? '' : variant.label}`.trim(),
      variant,
    })),
  );

/** The kernel's name in a table; "" if the build failed. */
function kernelOf({ build }: VariantResult): string {
  if (!build || build.runs.length === 0) return '';
  return (build.artifacts[0]?.fileName ?? build.entries[0]?.entry ?? '').split('.')[0]!;
}

const benchmarkOf = ({ benchmarks }: VariantResult, wanted: TimingMode): BenchmarkResult | undefined =>
  benchmarks.find(({ mode, valid }) => mode === wanted && valid);

const sdpaUs = (benchmark: BenchmarkResult | undefined, backend: string): number | undefined =>
  benchmark?.sdpa.find(({ name }) => name === `sdpa/${backend}`)?.latency?.p50Us;

const fastestSdpa = (benchmark: BenchmarkResult | undefined): SdpaResult | undefined =>
  benchmark?.sdpa.toSorted((a, b) => a.speedup - b.speedup)[0];
