/** View 3: latency of every shape, mode and subject, and the distribution of the selected one, live. */
import { StopReason, TimingMode, type BenchmarkResult, type LatencyStatistics } from '@flashcore/shared';
import { formatMicroseconds, formatNumber } from '../plot/format.ts';
import { histogram } from '../plot/histogram.ts';
import { flowRows, labelled, run, textRow, wrapRows, type Row, type Run } from '../plot/row.ts';
import { padCells } from '../plot/cells.ts';
import type { Column } from '../plot/table.ts';
import type { BenchmarkView } from '../state/job-view.ts';
import { isSimulated, nothingText, shownVariant } from '../state/selectors.ts';
import { MODE_WORDS, shapeShort, shapeWords } from '../state/words.ts';
import { comparePane } from './compare.ts';
import { list } from './list.ts';
import { SIMULATED_BADGE, SIMULATED_TEXT, pageOf, positionRemark, type Size, type View } from './view.ts';

const HISTOGRAM_ROWS = 7;

const statistic = (value: (latency: NonNullable<BenchmarkView['latency']>) => string) => ({ latency, warmUp }: BenchmarkView): Run =>
  latency === undefined || latency.samples === 0 ? run(warmUp ? '...' : '-', 'dim') : run(value(latency));

const derived = (value: (result: BenchmarkResult) => number | undefined) => ({ result }: BenchmarkView): Run => {
  const figure = result === undefined ? undefined : value(result);
  return figure === undefined ? run('-', 'dim') : run(formatNumber(figure));
};

const COLUMNS: Column<BenchmarkView>[] = [
  { title: 'case', cell: ({ shape }) => shapeShort(shape) },
  { title: 'mode', cell: ({ mode }) => run(MODE_WORDS[mode], mode === TimingMode.HOT ? 'warn' : 'accent') },
  { title: 'of', cell: ({ subject }) => (subject === 'candidate' ? 'kernel' : subject), shrinkTo: 6 },
  { title: 'p50', align: 'right', cell: statistic(({ p50Us }) => formatMicroseconds(p50Us)) },
  { title: '95 % of p50', align: 'right', drop: 4, cell: statistic(({ samples, p50LowUs, p50HighUs }) => samples < 2 ? '-' : `${formatMicroseconds(p50LowUs)}..${formatMicroseconds(p50HighUs)}`) },
  { title: 'p90', align: 'right', drop: 1, cell: statistic(({ p90Us }) => formatMicroseconds(p90Us)) },
  { title: 'p99', align: 'right', cell: statistic(({ p99Us }) => formatMicroseconds(p99Us)) },
  { title: 'mean', align: 'right', drop: 2, cell: statistic(({ meanUs }) => formatMicroseconds(meanUs)) },
  { title: 'sd', align: 'right', drop: 3, cell: statistic(({ samples, stddevUs }) => (samples < 2 ? '-' : formatMicroseconds(stddevUs))) },
  { title: 'n', align: 'right', cell: statistic(({ samples }) => String(samples)) },
  { title: 'TFLOP/s', align: 'right', drop: 5, cell: derived(({ tflops }) => tflops) },
  { title: 'GB/s', align: 'right', drop: 6, cell: derived(({ gbPerSecond }) => gbPerSecond) },
  { title: 'roof %', align: 'right', drop: 7, cell: derived(({ rooflinePercent }) => rooflinePercent) },
];

export const latencyView: View = ({ state }, size) => {
  if (state.ui.comparing) return comparePane(state, size);
  const benchmarks = shownVariant(state)?.benchmarks ?? [];
  const simulated = benchmarks.length > 0 ? benchmarks.some((benchmark) => benchmark.simulated) : isSimulated(state);
  const warning: Row[] = simulated ? [[run(padCells(` ${SIMULATED_TEXT}`, size.width), 'simulated')]] : [];
  const badge = simulated ? { badge: SIMULATED_BADGE } : {};
  if (benchmarks.length === 0) return { title: '3 Latency', ...badge, body: [...warning, ...wrapRows(nothingText(state, { pending: 'No samples yet: Benchmark and RunExperiment fill this view.', ended: 'No samples were taken in this job.' }), size.width, { role: 'dim' })] };
  const selected = Math.min(state.ui.selected.latency, benchmarks.length - 1);
  const listHeight = Math.min(benchmarks.length + 1, Math.max(3, Math.floor((size.height - warning.length) * 0.4)));
  const table = list(COLUMNS, benchmarks, { width: size.width, height: listHeight, selected, focused: state.ui.view === 'latency' });
  const rest = size.height - warning.length - table.length - 1;
  const chosen = benchmarks[selected];
  return {
    title: '3 Latency',
    ...badge,
    remark: positionRemark(selected, benchmarks.length, 'measurement'),
    body: [...warning, ...table, [run('─'.repeat(size.width), 'border')], ...(chosen === undefined ? [] : distributions(chosen, benchmarks, { width: size.width, height: rest, page: state.ui.detail }))].slice(0, size.height),
  };
};

/** The selected distribution, below it the same shape's other mode where there is room. */
function distributions(chosen: BenchmarkView, all: readonly BenchmarkView[], { width, height, page }: Size & { page: number }): Row[] {
  const others = all.filter((benchmark) => benchmark.key !== chosen.key && benchmark.histogram !== undefined && shapeShort(benchmark.shape) === shapeShort(chosen.shape));
  const facts = resultFacts(chosen, width);
  const shown = [chosen, ...others].slice(0, Math.max(1, Math.floor((height - Math.min(facts.length, 3)) / (HISTOGRAM_ROWS + 1))));
  const factRows = pageOf(facts, { height: Math.max(0, height - shown.length * (HISTOGRAM_ROWS + 1)), page });
  const each = Math.max(4, Math.min(14, Math.floor((height - factRows.length) / shown.length) - 1));
  return [...shown.flatMap((benchmark) => distribution(benchmark, { width, height: each })), ...factRows];
}

function distribution({ shape, mode, subject, warmUp, latency, histogram: bins, result }: BenchmarkView, size: Size): Row[] {
  const title: Row = [
    run(`${shapeWords(shape)} ${MODE_WORDS[mode]}`, 'title'), run(subject === 'candidate' ? '' : ` ${subject}`),
    run(warmUp ? '  warming up: these samples do not count' : result === undefined ? '  live' : '', 'accent'),
  ];
  if (bins === undefined || bins.counts.length === 0) return [title, textRow('no samples yet', 'dim')];
  const data = { low: bins.lowUs, binWidth: bins.binWidthUs, counts: bins.counts, underflow: bins.underflow, overflow: bins.overflow };
  const marks = latency === undefined ? [] : [{ label: 'p50', value: latency.p50Us }, { label: 'p90', value: latency.p90Us }, { label: 'p99', value: latency.p99Us }];
  return [title, ...histogram(data, { ...size, marks })];
}

/** One sample has no spread. */
function spreadFacts({ samples, meanUs, stddevUs, p50LowUs, p50HighUs }: LatencyStatistics): Row[] {
  if (samples < 2) return [];
  return [labelled('mean', formatMicroseconds(meanUs)), labelled('sd', formatMicroseconds(stddevUs)), labelled('95 % of p50', `${formatMicroseconds(p50LowUs)} to ${formatMicroseconds(p50HighUs)}`)];
}

const STOP_WORDS: Record<StopReason, string> = {
  [StopReason.UNSPECIFIED]: '-', [StopReason.CONVERGED]: 'interval of p50 is narrow enough', [StopReason.NOISE_FLOOR]: 'most samples taken', [StopReason.TIMED_OUT]: 'time limit',
  [StopReason.SAMPLE_LIMIT]: 'as many as asked for',
};

function resultFacts({ result, latency }: BenchmarkView, width: number): Row[] {
  if (result === undefined) return [];
  const groups: Row[] = [
    ...(latency === undefined ? [] : [labelled('min', formatMicroseconds(latency.minUs)), labelled('max', formatMicroseconds(latency.maxUs)), ...spreadFacts(latency), labelled('dropped', String(latency.dropped), latency.dropped > 0 ? 'warn' : undefined)]),
    labelled('stopped', STOP_WORDS[result.stopReason]),
    ...(result.outputCheck === '' ? [] : [labelled('output', result.outputCheck)]),
  ];
  return [
    ...(result.valid ? [] : wrapRows(`not for a leaderboard: ${result.invalidReason}`, width, { role: 'warn', hang: 2 })),
    ...(result.baselinesMissing === '' ? [] : wrapRows(`baselines ${result.baselinesMissing}`, width, { role: 'dim', hang: 2 })),
    ...flowRows(groups, width),
    ...(result.conditions?.notMeasured ? wrapRows(`clocks ${result.conditions.notMeasured}`, width, { role: 'dim', hang: 2 }) : []),
  ];
}
