/** Latency of one shape in one timing mode: its figures as columns and facts, and the full section of a report. */
import {
  StopReason,
  TimingMode,
  type BenchmarkResult,
  type Histogram,
  type LatencyStatistics,
  type MissingRival,
  type SdpaResult,
  type Shape,
} from '@flashcore/shared/contract';
import { FEWEST_SAMPLES } from '@flashcore/shared/kernels';
import {
  fact,
  facts,
  heading,
  notice,
  sharedFacts,
  tableOf,
  withoutFacts,
  type Block,
  type Column,
  type Fact,
  type PlotMark,
} from '../blocks.ts';
import {
  formatCount,
  formatError,
  counted,
  formatSpeedupInterval,
  formatMicroseconds,
  formatNumber,
  formatPercent,
  formatSpeedup,
} from '../numbers.ts';
import { piece, type Piece } from '../roles.ts';
import { MODE_WORDS, caseText, notMeasured, reuseText } from '../words.ts';
import { caseColumns } from './case-columns.ts';
import { conditionsText } from './conditions.ts';

/** One shape and timing mode of the kernel or another subject; live until the result arrives. */
export interface Timing {
  readonly shape: Shape | undefined;
  readonly mode: TimingMode;
  /** "candidate", or the name of a subject measured with it, for example "sdpa/flash". */
  readonly subject: string;
  readonly simulated: boolean;
  readonly warmUp: boolean;
  readonly latency?: LatencyStatistics | undefined;
  readonly histogram?: Histogram | undefined;
  readonly result?: BenchmarkResult | undefined;
  /** The subject's median divided by the kernel's; above 1 the kernel is faster. */
  readonly speedup?: number | undefined;
}

const timingOf = (result: BenchmarkResult): Timing => ({
  shape: result.shape,
  mode: result.mode,
  simulated: result.simulated,
  subject: 'candidate',
  warmUp: false,
  latency: result.latency,
  histogram: result.histogram,
  result,
});

const statistic =
  (value: (latency: LatencyStatistics) => string, fewest = 1) =>
  ({ latency, warmUp }: Timing): Piece => {
    if (latency === undefined || latency.samples === 0) return piece(warmUp ? '...' : '-', 'dim');
    return latency.samples < fewest ? piece('-', 'dim') : piece(value(latency));
  };

const derived =
  (value: (result: BenchmarkResult) => number | undefined, format: (value: number) => string = formatNumber) =>
  ({ result }: Timing): Piece => {
    const figure = result === undefined ? undefined : value(result);
    return figure === undefined ? piece('-', 'dim') : piece(format(figure));
  };

type P50Interval = Pick<LatencyStatistics, 'p50Us' | 'p50LowUs' | 'p50HighUs'>;

/** An interval such as "5.780 us to 5.789 us". */
export const p50IntervalText = ({ p50LowUs, p50HighUs, p50Us }: P50Interval): string =>
  `${formatMicroseconds(p50LowUs, p50Us)} to ${formatMicroseconds(p50HighUs, p50Us)}`;

const P50: Column<Timing> = {
  title: 'p50',
  align: 'right',
  cell: statistic(({ p50Us }) => formatMicroseconds(p50Us)),
};
const SPREAD: Column<Timing>[] = [
  { title: '95 % interval', align: 'right', drop: 6, cell: statistic(p50IntervalText, FEWEST_SAMPLES.interval) },
  {
    title: 'p90',
    align: 'right',
    drop: 5,
    cell: statistic(({ p90Us, p50Us }) => formatMicroseconds(p90Us, p50Us), FEWEST_SAMPLES.p90),
  },
  {
    title: 'p99',
    align: 'right',
    cell: statistic(({ p99Us, p50Us }) => formatMicroseconds(p99Us, p50Us), FEWEST_SAMPLES.p99),
  },
  { title: 'mean', align: 'right', drop: 9, cell: statistic(({ meanUs, p50Us }) => formatMicroseconds(meanUs, p50Us)) },
  {
    title: 'sd',
    align: 'right',
    drop: 8,
    cell: statistic(({ stddevUs, p50Us }) => formatMicroseconds(stddevUs, p50Us), FEWEST_SAMPLES.deviation),
  },
];
const EXTREMES: Column<Timing>[] = [
  { title: 'min', align: 'right', drop: 7, cell: statistic(({ minUs, p50Us }) => formatMicroseconds(minUs, p50Us)) },
  { title: 'max', align: 'right', drop: 7, cell: statistic(({ maxUs, p50Us }) => formatMicroseconds(maxUs, p50Us)) },
];

/** Columns of a table with one line per measurement. */
export const timingColumns = (timings: readonly Pick<Timing, 'shape'>[], width: number): readonly Column<Timing>[] => [
  ...caseColumns<Pick<Timing, 'shape'>>(timings, { shape: ({ shape }) => shape, width }),
  ...TIMING_COLUMNS,
];

const TIMING_COLUMNS: readonly Column<Timing>[] = [
  { title: 'mode', cell: ({ mode }) => piece(MODE_WORDS[mode], mode === TimingMode.HOT ? 'warn' : 'accent') },
  { title: 'timed', cell: ({ subject }) => (subject === 'candidate' ? piece('kernel', 'title') : subject) },
  P50,
  ...SPREAD,
  { title: 'n', align: 'right', cell: statistic(({ samples }) => formatCount(samples)) },
  {
    title: 'dropped',
    align: 'right',
    drop: 10,
    cell: ({ latency }) =>
      latency === undefined || latency.dropped === 0 ? piece('-', 'dim') : piece(`×${latency.dropped}`, 'bad'),
  },
  { title: 'TFLOP/s', align: 'right', drop: 4, cell: derived(({ tflops }) => tflops) },
  { title: 'GB/s', align: 'right', drop: 7, cell: derived(({ gbPerSecond }) => gbPerSecond) },
  { title: 'of roof', align: 'right', drop: 3, cell: derived(({ rooflinePercent }) => rooflinePercent, formatPercent) },
  {
    title: 'speedup',
    align: 'right',
    drop: 2,
    cell: ({ speedup }) =>
      speedup === undefined ? piece('') : piece(formatSpeedup(speedup), speedup > 1 ? 'good' : 'bad'),
  },
];

/** The percentiles for which there are enough samples. */
export function marksOf(latency: LatencyStatistics | undefined): PlotMark[] {
  if (latency === undefined) return [];
  const { samples, p50Us, p90Us, p99Us } = latency;
  return [
    { label: 'p50', value: p50Us },
    ...(samples >= FEWEST_SAMPLES.p90 ? [{ label: 'p90', value: p90Us }] : []),
    ...(samples >= FEWEST_SAMPLES.p99 ? [{ label: 'p99', value: p99Us }] : []),
  ];
}

/** Reasons for the end of sampling. */
export const STOP_WORDS: Record<StopReason, string> = {
  [StopReason.UNSPECIFIED]: '',
  [StopReason.CONVERGED]: 'the interval of p50 is narrow enough',
  [StopReason.NOISE_FLOOR]: 'the most that the protocol takes; the rest is noise',
  [StopReason.TIMED_OUT]: 'time limit reached before the interval was narrow enough',
  [StopReason.SAMPLE_LIMIT]: 'as many as asked for',
};

/**
 * Facts about the spread. A single sample has no spread, and a few samples have no percentiles, so the facts name the
 * number needed.
 */
export function spreadFacts({ latency }: Pick<Timing, 'latency'>): Fact[] {
  if (latency === undefined || latency.samples === 0) return [];
  const { samples, p50Us, meanUs, stddevUs, minUs, maxUs, dropped } = latency;
  return [
    fact('min', formatMicroseconds(minUs, p50Us)),
    fact('max', formatMicroseconds(maxUs, p50Us)),
    ...(samples < 2
      ? []
      : [fact('mean', formatMicroseconds(meanUs, p50Us)), fact('sd', formatMicroseconds(stddevUs, p50Us))]),
    ...(samples < FEWEST_SAMPLES.interval ? [] : [fact('95 % interval', p50IntervalText(latency))]),
    ...(samples < FEWEST_SAMPLES.p99 ? [tooFewFact(samples)] : []),
    fact('dropped', String(dropped), dropped > 0 ? 'bad' : undefined),
  ];
}

const tooFewFact = (samples: number): Fact =>
  samples < FEWEST_SAMPLES.p90
    ? fact('p90, p99', `need ${FEWEST_SAMPLES.p90} and ${FEWEST_SAMPLES.p99} samples, got ${samples}`)
    : fact('p99', `needs ${FEWEST_SAMPLES.p99} samples, got ${samples}`);

/** Facts about the samples: their number, the reason for stopping, and the conditions. */
export function resultFacts(result: BenchmarkResult): Fact[] {
  return facts(
    fact('samples', samplesText(result)),
    fact('throughput', throughputText(result)),
    ...(result.sdpa.length === 0
      ? [fact('SDPA', result.sdpaMissing ? notMeasured(result.sdpaMissing) : 'none asked for', 'dim')]
      : result.sdpa.map((sdpa) => fact(sdpa.name, sdpaText(sdpa)))),
    ...result.missingRivals.map(({ name, version, reason }) =>
      fact(name, missingRivalText({ version, reason }), 'warn'),
    ),
    result.legacyLoop &&
      fact(
        'legacy loop',
        `${formatMicroseconds(result.legacyLoop.meanUs)}, ${result.legacyLoop.warning} (${counted(result.legacyLoop.launches, 'launch')})`,
        'warn',
      ),
    fact('conditions', conditionsText(result.conditions)),
    fact('clock', result.clockSource ? `${result.clockSource}${slowedText(result)}` : ''),
    fact('checked', result.outputCheck),
    result.valid ? undefined : fact('not valid', result.invalidReason || 'no reason given', 'warn'),
  ).facts.slice();
}

function samplesText(result: BenchmarkResult): string {
  const { latency } = result;
  if (!latency) return 'none';
  return [
    String(latency.samples),
    latency.dropped > 0 ? `${latency.dropped} dropped (throttled, or the clock fell)` : '',
    result.launchesPerSample > 1 ? `${result.launchesPerSample} launches each` : '',
    STOP_WORDS[result.stopReason],
    result.eventOverheadUs > 0 ? `empty event pair ${formatMicroseconds(result.eventOverheadUs)}` : '',
  ]
    .filter((part) => part !== '')
    .join('; ');
}

const throughputText = (result: BenchmarkResult): string =>
  [
    result.tflops === undefined ? '' : `${formatNumber(result.tflops)} TFLOP/s`,
    result.gbPerSecond === undefined ? '' : `${formatNumber(result.gbPerSecond)} GB/s`,
    result.rooflinePercent === undefined ? '' : rooflineText(result.rooflinePercent, result),
  ]
    .filter((part) => part !== '')
    .join(', ');

/** The peak behind a share of the roofline. Older records do not name it; theirs is the tensor cores'. */
export const peakWord = (units: string | undefined): string => (units === 'fp32 units' ? 'fp32' : 'tensor-core');

/**
 * Says how close the kernel is to the roofline, which assumes that Q, K, V and O are read or written once in device
 * memory; data in L2 arrives faster.
 */
function rooflineText(percent: number, { leastUs, leastBasis, rooflineUnits }: BenchmarkResult): string {
  const text = `${formatPercent(percent)} of the ${peakWord(rooflineUnits)} roofline`;
  if (percent <= 100) return text;
  const least =
    leastUs === undefined
      ? ''
      : `; the least possible here is ${formatMicroseconds(leastUs)}: ${leastBasis ?? 'basis not known'}`;
  return `${text}, which counts every tensor from device memory once${least}`;
}

const missingRivalText = ({ version, reason }: Pick<MissingRival, 'version' | 'reason'>): string =>
  `${notMeasured(reason)}${version === '' ? '' : ` (${version})`}`;

const sdpaText = ({ latency, speedup, speedupLow, speedupHigh, version, reused, maxAbsError }: SdpaResult): string =>
  `${latency ? `p50 ${formatMicroseconds(latency.p50Us)}, ` : ''}speedup ${formatSpeedupInterval({ ratio: speedup, low: speedupLow, high: speedupHigh })} (${version}${reused ? `; ${reuseText(reused)}` : ''}${maxAbsError === undefined ? '' : `; largest error ${formatError(maxAbsError)}`})`;

function slowedText({ slowedSamples, throttledSamples, latency }: BenchmarkResult): string {
  const share = (samples: number): string => formatPercent((100 * samples) / latency!.samples);
  const parts = [
    slowedSamples > 0 && latency ? `it fell in ${share(slowedSamples)} of the samples` : '',
    throttledSamples > 0 && latency ? `the device was throttled in ${share(throttledSamples)}` : '',
  ].filter((part) => part !== '');
  return parts.length === 0 ? '' : `; ${parts.join(', ')}; they are kept: those of SDPA have no clock to drop them by`;
}

function modeRemark({ mode, simulated }: BenchmarkResult): string {
  if (mode === TimingMode.HOT) return 'hot (back to back)';
  if (mode !== TimingMode.COLD) return 'unknown timing mode';
  // The emulator has no caches.
  return simulated ? 'cold (isolated launches)' : 'cold (L2 flushed, isolated launches)';
}

/** Each shape in each timing mode: percentiles, histogram, throughput, SDPA, conditions; then what all share. */
export function timingBlocks(results: readonly BenchmarkResult[]): Block[] {
  const factsOf = results.map(resultFacts);
  const shared = sharedFacts(factsOf);
  return [
    ...results.flatMap((result, index) => [
      heading(`Latency ${caseText(result.shape)}`, modeRemark(result)),
      ...distributionBlocks(timingOf(result)),
      facts(...withoutFacts(factsOf[index] ?? [], shared)),
    ]),
    ...(shared.length === 0 ? [] : [heading('Latency', `all ${results.length} measurements`), facts(...shared)]),
  ];
}

function distributionBlocks(timing: Timing): Block[] {
  const { latency, histogram } = timing;
  if (latency === undefined) return [];
  if (latency.samples < FEWEST_SAMPLES.interval) return [notice(fewSamplesText(latency))];
  return [
    tableOf([P50, ...SPREAD, ...EXTREMES], [timing]),
    ...(histogram === undefined || histogram.counts.length === 0
      ? []
      : [{ kind: 'plot', drawing: { type: 'histogram', histogram, marks: marksOf(latency) } } satisfies Block]),
  ];
}

/** Text such as "8.000 us to 10.00 us, median 9.000 us; percentiles and intervals need 5 samples or more". */
function fewSamplesText({ samples, minUs, p50Us, maxUs }: LatencyStatistics): string {
  const time = (value: number): string => formatMicroseconds(value, p50Us);
  const text = samples === 1 ? `${time(p50Us)}, one sample` : `${time(minUs)} to ${time(maxUs)}, median ${time(p50Us)}`;
  return `${text}; percentiles and intervals need ${FEWEST_SAMPLES.interval} samples or more`;
}
