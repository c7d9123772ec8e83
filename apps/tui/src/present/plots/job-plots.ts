/** All plots for the data of an ended job. Reports and pictures take their plots from here. */
import {
  TimingMode,
  Verdict,
  type BenchmarkResult,
  type CaseResult,
  type Device,
  type GetJobResponse,
  type ProfileResult,
  type Provenance,
  type ShapeComparison,
  type VariantResult,
} from '@flashcore/shared/contract';
import {
  arithmeticPeak,
  FEWEST_SAMPLES,
  isTensorDtype,
  recordedDtype,
  type TensorDtype,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { plot, type Bar, type NamedHistogram, type Plot, type RoofPoint } from '../blocks.ts';
import { formatMicroseconds, formatNumber, formatPercent } from '../numbers.ts';
import { outputTitle } from '../sections/cases.ts';
import { marksOf } from '../sections/timings.ts';
import { MODE_WORDS, shapeShort, shortName } from '../words.ts';

/** The subject of a plot, shown in every caption. */
interface PlotSubject {
  readonly job: string;
  readonly kernel: string;
  readonly device: Device | undefined;
  readonly dtype: TensorDtype;
}

export function jobPlots({ job, result }: GetJobResponse): Plot[] {
  if (!job || !result) return [];
  return result.variants.flatMap((variant) => variantPlots(variant, subjectOf(job, variant, result.provenance)));
}

export const subjectOf = (
  job: NonNullable<GetJobResponse['job']>,
  { label }: Pick<VariantResult, 'label'>,
  provenance: Provenance | undefined,
): PlotSubject => ({
  job: job.name,
  kernel: label === '' || label === 'default' ? job.kernelId : `${job.kernelId} ${label}`,
  device: provenance?.device,
  dtype: dtypeOf(provenance),
});

function variantPlots({ build, benchmarks, comparison, profile, verify }: VariantResult, subject: PlotSubject): Plot[] {
  return [
    ...benchmarks.flatMap((benchmark) => distributionPlots(benchmark, subject)),
    ...(comparison?.shapes ?? []).flatMap((shape) => comparisonPlots(shape, subject)),
    ...rooflinePlots(benchmarks, subject, usesTensorCores({ build, profile })),
    ...(profile === undefined ? [] : stallPlots(profile, subject)),
    ...(verify?.cases ?? []).flatMap((each) => errorPlots(each, subject)),
  ];
}

/** A caption such as "Latency, 2x8x512x64 hot: flashcore_v6 on NVIDIA H200, job 01234567". */
function captionOf(what: string, { kernel, device, job }: PlotSubject): string {
  const place = device === undefined ? 'an unknown device' : `${device.name}${device.simulated ? ' (simulated)' : ''}`;
  return `${what}: ${kernel} on ${place}, job ${shortName(job)}`;
}

const placeText = ({ shape, mode }: Pick<BenchmarkResult, 'shape' | 'mode'>): string =>
  `${shapeShort(shape)} ${MODE_WORDS[mode]}`;

/** The histogram, and the ECDF together with SDPA's. */
function distributionPlots(benchmark: BenchmarkResult, subject: PlotSubject): Plot[] {
  const { histogram, latency, sdpa } = benchmark;
  if (!histogram || histogram.counts.length === 0 || !latency || latency.samples < FEWEST_SAMPLES.interval) return [];
  const beside = sdpa.flatMap(({ name, histogram: samples, latency: times }): NamedHistogram[] =>
    samples && times && samples.counts.length > 0 ? [{ label: name, histogram: samples, p50Us: times.p50Us }] : [],
  );
  return [
    plot(captionOf(`Latency, ${placeText(benchmark)}`, subject), {
      type: 'histogram',
      histogram,
      marks: marksOf(latency),
    }),
    plot(captionOf(`Share of samples at or below a time, ${placeText(benchmark)}`, subject), {
      type: 'ecdf',
      curves: [{ label: subject.kernel, histogram, p50Us: latency.p50Us }, ...beside],
    }),
  ];
}

/** The distributions of the champion, above, and of the candidate. */
export function comparisonPlots(compared: ShapeComparison, subject: PlotSubject): Plot[] {
  const { champion, candidate, championHistogram, candidateHistogram } = compared;
  if (!champion || !candidate || !championHistogram || !candidateHistogram) return [];
  return [
    plot(captionOf(`Champion (above) and candidate, ${placeText(compared)}`, subject), {
      type: 'mirrored',
      upper: { label: 'champion', histogram: championHistogram, p50Us: champion.p50Us },
      lower: { label: 'candidate', histogram: candidateHistogram, p50Us: candidate.p50Us },
    }),
  ];
}

/** Measurements as points below the roof; emulator times are left out. */
const roofPoints = (benchmarks: readonly BenchmarkResult[]): RoofPoint[] =>
  benchmarks.flatMap((benchmark) =>
    benchmark.simulated || benchmark.tflops === undefined || benchmark.bytes <= 0
      ? []
      : [
          {
            label: `${placeText(benchmark)}, ${formatMicroseconds(benchmark.latency?.p50Us ?? NaN)}, ${formatNumber(benchmark.tflops)} TFLOP/s`,
            intensity: benchmark.flops / benchmark.bytes,
            tflops: benchmark.tflops,
          },
        ],
  );

/** The dtype of a job's tensors; fp16 for one that this client does not know. */
export function dtypeOf(provenance: Provenance | undefined): TensorDtype {
  const dtype = recordedDtype(provenance?.dtype);
  return isTensorDtype(dtype) ? dtype : 'fp16';
}

/** Whether a kernel uses tensor cores, by its code or its counters; undefined if neither says. */
export const usesTensorCores = ({
  build,
  profile,
}: Partial<Pick<VariantResult, 'build' | 'profile'>>): boolean | undefined =>
  build?.tensorCores ??
  (profile?.metrics.some(({ name, value }) => name === 'tensor_pipe_percent' && value === 0) ? false : undefined);

function rooflinePlots(
  benchmarks: readonly BenchmarkResult[],
  subject: PlotSubject,
  tensorCores: boolean | undefined,
): Plot[] {
  const roof = subject.device?.roofline;
  const points = roofPoints(benchmarks.filter(({ mode }) => mode === TimingMode.HOT));
  if (!roof || roof.fp16TensorTflops <= 0 || points.length === 0) return [];
  const { tflops: peakTflops, units } = arithmeticPeak(roof, { dtype: subject.dtype, tensorCores });
  const ceilings = { peakTflops, memoryGbPerSecond: roof.memoryGbPerSecond };
  return [plot(captionOf(`Roofline of ${units}, hot`, subject), { type: 'roofline', ceilings, points })];
}

const MOST_STALLS = 10;

/** Stalls by size, each with its share of the total; negligible ones are left out. */
export function stallBars({ stalls }: Pick<ProfileResult, 'stalls'>): Bar[] {
  const all = stalls.reduce((sum, { value }) => sum + value, 0);
  return stalls
    .filter(({ value }) => value > 0)
    .slice(0, MOST_STALLS)
    .map(({ name, value }) => ({
      label: name,
      value,
      text: `${value.toFixed(2)}  ${Math.round((100 * value) / all)} %`,
    }));
}

/** Words for the emulator's instruction families; their shares add up to 100 %. */
const FAMILY_WORDS: Readonly<Record<string, string>> = {
  fma_percent: 'multiply-add',
  float_percent: 'other floating point',
  integer_percent: 'integer and moves',
  conversion_percent: 'conversions',
  special_function_percent: 'special functions',
  tensor_percent: 'tensor cores',
  memory_percent: 'memory',
  control_percent: 'branches and fences',
  warp_percent: 'warp operations',
  barrier_percent: 'barriers',
};

/** The families of a profile that the emulator counted, by size; those that did not occur are left out. */
export function familyBars({ metrics }: Pick<ProfileResult, 'metrics'>): Bar[] {
  return metrics
    .flatMap(({ name, value }) => {
      const label = entryOf(FAMILY_WORDS, name);
      return label === undefined || value === 0 ? [] : [{ label, value, text: formatPercent(value) }];
    })
    .toSorted((a, b) => b.value - a.value);
}

function stallPlots(profile: ProfileResult, subject: PlotSubject): Plot[] {
  const bars = stallBars(profile);
  if (bars.length === 0) return [];
  const what = `Stalls, warp cycles per issued instruction, ${shapeShort(profile.shape)}`;
  return [plot(captionOf(what, subject), { type: 'bars', bars, full: Math.max(...bars.map(({ value }) => value)) })];
}

/** Error maps of a failed case; a case that passed has nothing to show. */
function errorPlots({ shape, verdict, errorMap, output }: CaseResult, subject: PlotSubject): Plot[] {
  if (verdict !== Verdict.FAIL || !errorMap) return [];
  return [
    plot(captionOf(`Largest |out - reference|, ${outputTitle({ output })}${shapeShort(shape)}`, subject), {
      type: 'heat',
      map: errorMap,
      isNamed: output !== '',
    }),
  ];
}
