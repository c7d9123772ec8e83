/** The timed figures of ended jobs, one a shape and mode, with the job that each is of. */
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

/** Where and how figures were taken. Those of two places never stand in one table. */
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

/** Figures by place, in the order in which places first come. */
export const byPlace = (figures: readonly Figure[]): { place: Place; figures: Figure[] }[] =>
  [...Map.groupBy(figures, (figure) => placeTitle(placeOf(figure))).values()].map((group) => ({
    place: placeOf(group[0]!),
    figures: group,
  }));

/** The one to beat: the backend with the least median. */
export const fastestSdpa = ({ sdpa }: Pick<BenchmarkResult, 'sdpa'>): SdpaResult | undefined =>
  sdpa
    .filter(({ latency }) => latency !== undefined)
    .toSorted((a, b) => a.latency!.p50Us - b.latency!.p50Us)
    .at(0);

/** With the job that measured it, where that is another. */
export const sdpaName = ({ name, reused }: SdpaResult): string =>
  reused ? `${name} of ${shortName(reused.job)}` : name;

/** Emulator times are no GPU times: what is for a dashboard or a table of GPU figures leaves them out. */
export const isMeasured = ({ benchmark }: Figure): boolean => !benchmark.simulated && benchmark.valid;

/** How far a median may be off; few samples do not say. */
export const P50_INTERVAL: Column<Figure> = {
  title: '95 % of p50',
  align: 'right',
  cell: ({ benchmark: { latency } }) => (latency!.samples < FEWEST_SAMPLES.interval ? '-' : p50IntervalText(latency!)),
};

/** Why a figure may not be used; undefined: it may. */
export const notValidText = ({ benchmark: { valid, invalidReason } }: Pick<Figure, 'benchmark'>): string | undefined =>
  valid ? undefined : `not valid: ${invalidReason ?? 'no reason given'}`;

/** What charts call a figure. */
export const figureName = ({ kernel, shape, mode }: Figure): string => `${kernel} ${shape} ${mode}`;

const kernelText = (id: string, { label, fallback }: VariantResult): string =>
  fallback || label !== 'default' ? `${id} ${label}`.trim() : id;
