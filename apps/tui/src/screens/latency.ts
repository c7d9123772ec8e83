/** View 3: latency of every shape, mode and subject, and the distribution of the selected one, live. */
import { TimingMode, type BenchmarkResult, type LatencyStatistics } from '@flashcore/shared';
import { formatMicroseconds, formatNumber } from '../plot/format.ts';
import { run, type Row, type Run } from '../plot/row.ts';
import { padCells } from '../plot/cells.ts';
import type { Column } from '../plot/table.ts';
import type { BenchmarkView } from '../state/job-view.ts';
import { isSimulated, shownVariant } from '../state/selectors.ts';
import { MODE_WORDS, shapeShort } from '../state/words.ts';
import { comparePane } from './compare.ts';
import { distributionRows, FEWEST } from './distribution.ts';
import { list } from './list.ts';
import { nothingRows } from './nothing.ts';
import { SIMULATED_BADGE, SIMULATED_TEXT, positionRemark, type View } from './view.ts';

const statistic = (value: (latency: LatencyStatistics) => string, fewest = 1) => ({ latency, warmUp }: BenchmarkView): Run => {
  if (latency === undefined || latency.samples === 0) return run(warmUp ? '...' : '-', 'dim');
  return latency.samples < fewest ? run('-', 'dim') : run(value(latency));
};

const derived = (value: (result: BenchmarkResult) => number | undefined) => ({ result }: BenchmarkView): Run => {
  const figure = result === undefined ? undefined : value(result);
  return figure === undefined ? run('-', 'dim') : run(formatNumber(figure));
};

const COLUMNS: Column<BenchmarkView>[] = [
  { title: 'case', cell: ({ shape }) => shapeShort(shape) },
  { title: 'mode', cell: ({ mode }) => run(MODE_WORDS[mode], mode === TimingMode.HOT ? 'warn' : 'accent') },
  { title: 'of', cell: ({ subject }) => (subject === 'candidate' ? run('kernel', 'title') : subject) },
  { title: 'p50', align: 'right', cell: statistic(({ p50Us }) => formatMicroseconds(p50Us)) },
  { title: '95 % of p50', align: 'right', drop: 6, cell: statistic(({ p50LowUs, p50HighUs }) => `${formatMicroseconds(p50LowUs)}..${formatMicroseconds(p50HighUs)}`, FEWEST.interval) },
  { title: 'p90', align: 'right', drop: 5, cell: statistic(({ p90Us }) => formatMicroseconds(p90Us), FEWEST.p90) },
  { title: 'p99', align: 'right', cell: statistic(({ p99Us }) => formatMicroseconds(p99Us), FEWEST.p99) },
  { title: 'mean', align: 'right', drop: 9, cell: statistic(({ meanUs }) => formatMicroseconds(meanUs)) },
  { title: 'sd', align: 'right', drop: 8, cell: statistic(({ stddevUs }) => formatMicroseconds(stddevUs), 2) },
  { title: 'n', align: 'right', cell: statistic(({ samples }) => String(samples)) },
  { title: 'dropped', align: 'right', drop: 10, cell: ({ latency }) => (latency === undefined || latency.dropped === 0 ? run('-', 'dim') : run(`×${latency.dropped}`, 'bad')) },
  { title: 'TFLOP/s', align: 'right', drop: 4, cell: derived(({ tflops }) => tflops) },
  { title: 'GB/s', align: 'right', drop: 7, cell: derived(({ gbPerSecond }) => gbPerSecond) },
  { title: 'roof %', align: 'right', drop: 3, cell: derived(({ rooflinePercent }) => rooflinePercent) },
  { title: 'kernel is', align: 'right', drop: 2, cell: (view) => run(view.speedup === undefined ? '' : `${view.speedup.toFixed(2)}x it`, (view.speedup ?? 0) > 1 ? 'good' : 'bad') },
];

export const latencyView: View = ({ state }, size) => {
  if (state.ui.comparing) return comparePane(state, size);
  const benchmarks = shownVariant(state)?.benchmarks ?? [];
  const simulated = benchmarks.length > 0 ? benchmarks.some((benchmark) => benchmark.simulated) : isSimulated(state);
  const warning: Row[] = simulated ? [[run(padCells(` ${SIMULATED_TEXT}`, size.width), 'simulated')]] : [];
  const badge = simulated ? { badge: SIMULATED_BADGE } : {};
  if (benchmarks.length === 0) return { title: '3 Latency', ...badge, body: [...warning, ...nothingRows(state, 'latency', size)] };
  const selected = Math.min(state.ui.selected.latency, benchmarks.length - 1);
  const listHeight = Math.min(benchmarks.length + 1, Math.max(3, Math.floor((size.height - warning.length) * 0.4)));
  const table = list(COLUMNS, benchmarks, { width: size.width, height: listHeight, selected, focused: state.ui.view === 'latency' });
  const rest = size.height - warning.length - table.length - 1;
  const chosen = benchmarks[selected];
  return {
    title: '3 Latency',
    ...badge,
    remark: positionRemark(selected, benchmarks.length, 'measurement'),
    body: [...warning, ...table, [run('─'.repeat(size.width), 'border')], ...(chosen === undefined ? [] : distributionRows(state, chosen, { width: size.width, height: rest }))].slice(0, size.height),
  };
};
