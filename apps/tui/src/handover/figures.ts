/** The timed figures of ended jobs, one per shape and mode, each with its job. */
import {
  TimingMode,
  type BenchmarkResult,
  type GetJobResponse,
  type Provenance,
  type SdpaResult,
  type VariantResult,
} from '@flashcore/shared/contract';
import type { Column } from '../present/blocks.ts';
import { p50IntervalText } from '../present/sections/timings.ts';
import { dtypeWord, shortName } from '../present/words.ts';
import { FEWEST_SAMPLES, formatShape, recordedDtype } from '@flashcore/shared/kernels';
import { isSdpa } from '@flashcore/shared/rivals';
import { formatMicroseconds } from '../present/numbers.ts';

export interface Figure {
  readonly job: string;
  readonly kernel: string;
  readonly variant: VariantResult;
  readonly benchmark: BenchmarkResult;
  readonly shape: string;
  readonly mode: 'hot' | 'cold';
  readonly provenance: Provenance | undefined;
}

export function figuresOf(jobs: readonly GetJobResponse[]): Figure[] {
  return jobs.flatMap(({ job, result }) =>
    (result?.variants ?? []).flatMap((variant) =>
      variant.benchmarks
        .filter(({ latency }) => latency !== undefined)
        .map((benchmark): Figure => ({
          job: job?.name ?? '',
          kernel: kernelText(job?.kernelId ?? '', variant),
          variant,
          benchmark,
          shape: benchmark.shape ? formatShape(benchmark.shape) : '',
          mode: benchmark.mode === TimingMode.COLD ? 'cold' : 'hot',
          provenance: result?.provenance,
        })),
    ),
  );
}

/** The conditions of a figure. Figures with different conditions are never in one table. */
export interface Place {
  readonly device: string;
  readonly dtype: string;
  readonly protocol: string;
  readonly simulated: boolean;
}

export const placeOf = ({ provenance, benchmark }: Pick<Figure, 'provenance' | 'benchmark'>): Place => ({
  device: provenance?.device?.name ?? 'unknown device',
  dtype: recordedDtype(provenance?.dtype),
  protocol: provenance?.protocol || 'unknown protocol',
  simulated: benchmark.simulated,
});

export const placeTitle = ({ device, dtype, protocol, simulated }: Place): string =>
  [device, dtypeWord(dtype).trim(), protocol, simulated ? 'simulated: no GPU times' : ''].filter(Boolean).join(', ');

/** Figures by place, with the places in the order in which they first appear. */
export const byPlace = (figures: readonly Figure[]): { place: Place; figures: Figure[] }[] =>
  [...Map.groupBy(figures, (figure) => placeTitle(placeOf(figure))).values()].map((group) => ({
    place: placeOf(group[0]!),
    figures: group,
  }));

/** The backend with the smallest median, which a kernel has to beat. */
export const fastestSdpa = ({ sdpa }: Pick<BenchmarkResult, 'sdpa'>): SdpaResult | undefined =>
  sdpa
    .filter((each) => isSdpa(each) && each.latency !== undefined)
    .toSorted((a, b) => a.latency!.p50Us - b.latency!.p50Us)
    .at(0);

/** The backend's name. If another job measured the figure, the name includes that job. */
export const sdpaName = ({ name, reused }: SdpaResult): string =>
  reused ? `${name} of ${shortName(reused.job)}` : name;

/**
 * False for invalid figures and for emulator times, which are not GPU times. Tables and dashboards of GPU figures leave
 * both out.
 */
export const isMeasured = ({ benchmark }: Figure): boolean => !benchmark.simulated && benchmark.valid;

/** The columns for a figure's median and its uncertainty. The uncertainty is empty for few samples. */
export const MEDIAN_COLUMNS: readonly Column<Figure>[] = [
  { title: 'p50', align: 'right', cell: ({ benchmark }) => formatMicroseconds(benchmark.latency!.p50Us) },
  {
    title: '95 % interval',
    align: 'right',
    cell: ({ benchmark: { latency } }) =>
      latency!.samples < FEWEST_SAMPLES.interval ? '-' : p50IntervalText(latency!),
  },
];

/** Says why a figure must not be used; undefined if it is valid. */
export const notValidText = ({ benchmark: { valid, invalidReason } }: Pick<Figure, 'benchmark'>): string | undefined =>
  valid ? undefined : `not valid: ${invalidReason ?? 'no reason given'}`;

/** Name of a figure in charts. */
export const figureName = ({ kernel, shape, mode }: Figure): string => `${kernel} ${shape} ${mode}`;

const kernelText = (id: string, { label, fallback }: VariantResult): string =>
  fallback || label !== 'default' ? `${id} ${label}`.trim() : id;
