/** View 3: latency of every shape, mode and subject, and the distribution of the selected one, live. */
import { TimingMode, type BenchmarkResult, type LatencyStatistics } from '@flashcore/shared/contract';
import { formatMicroseconds, formatNumber } from '../../present/numbers.ts';
import { run, type Row, type Run } from '../../present/cells/row.ts';
import { padCells } from '../../present/cells/cell-text.ts';
import type { Column } from '../../present/cells/table.ts';
import type { ComparisonView } from '../../state/comparison.ts';
import type { AppState } from '../../state/app-state.ts';
import type { BenchmarkView } from '../../state/job-view.ts';
import { isSimulated, shownVariant } from '../../state/selectors.ts';
import { MODE_WORDS, shapeShort } from '../../present/words.ts';
import { COMPARISON_COLUMNS, comparisonDetail, comparisonHead } from './comparison.ts';
import { comparePane } from '../pinned/pinned-pages.ts';
import { distributionRows, FEWEST } from '../distribution/distribution.ts';
import { list } from '../pane/list.ts';
import { nothingRows } from '../pane/nothing.ts';
import { SIMULATED_BADGE, SIMULATED_TEXT, positionRemark, type Size, type View } from '../pane/view.ts';

const statistic =
  (value: (latency: LatencyStatistics) => string, fewest = 1) =>
  ({ latency, warmUp }: BenchmarkView): Run => {
    if (latency === undefined || latency.samples === 0) return run(warmUp ? '...' : '-', 'dim');
    return latency.samples < fewest ? run('-', 'dim') : run(value(latency));
  };

const derived =
  (value: (result: BenchmarkResult) => number | undefined) =>
  ({ result }: BenchmarkView): Run => {
    const figure = result === undefined ? undefined : value(result);
    return figure === undefined ? run('-', 'dim') : run(formatNumber(figure));
  };

const COLUMNS: Column<BenchmarkView>[] = [
  { title: 'case', cell: ({ shape }) => shapeShort(shape) },
  { title: 'mode', cell: ({ mode }) => run(MODE_WORDS[mode], mode === TimingMode.HOT ? 'warn' : 'accent') },
  { title: 'of', cell: ({ subject }) => (subject === 'candidate' ? run('kernel', 'title') : subject) },
  { title: 'p50', align: 'right', cell: statistic(({ p50Us }) => formatMicroseconds(p50Us)) },
  {
    title: '95 % of p50',
    align: 'right',
    drop: 6,
    cell: statistic(
      ({ p50LowUs, p50HighUs, p50Us }) =>
        `${formatMicroseconds(p50LowUs, p50Us)}..${formatMicroseconds(p50HighUs, p50Us)}`,
      FEWEST.interval,
    ),
  },
  {
    title: 'p90',
    align: 'right',
    drop: 5,
    cell: statistic(({ p90Us, p50Us }) => formatMicroseconds(p90Us, p50Us), FEWEST.p90),
  },
  { title: 'p99', align: 'right', cell: statistic(({ p99Us, p50Us }) => formatMicroseconds(p99Us, p50Us), FEWEST.p99) },
  { title: 'mean', align: 'right', drop: 9, cell: statistic(({ meanUs, p50Us }) => formatMicroseconds(meanUs, p50Us)) },
  {
    title: 'sd',
    align: 'right',
    drop: 8,
    cell: statistic(({ stddevUs, p50Us }) => formatMicroseconds(stddevUs, p50Us), 2),
  },
  { title: 'n', align: 'right', cell: statistic(({ samples }) => String(samples)) },
  {
    title: 'dropped',
    align: 'right',
    drop: 10,
    cell: ({ latency }) =>
      latency === undefined || latency.dropped === 0 ? run('-', 'dim') : run(`×${latency.dropped}`, 'bad'),
  },
  { title: 'TFLOP/s', align: 'right', drop: 4, cell: derived(({ tflops }) => tflops) },
  { title: 'GB/s', align: 'right', drop: 7, cell: derived(({ gbPerSecond }) => gbPerSecond) },
  { title: 'roof %', align: 'right', drop: 3, cell: derived(({ rooflinePercent }) => rooflinePercent) },
  {
    title: 'kernel is',
    align: 'right',
    drop: 2,
    cell: ({ speedup }) =>
      speedup === undefined ? run('') : run(`${speedup.toFixed(2)}x it`, speedup > 1 ? 'good' : 'bad'),
  },
];

export const latencyView: View = ({ state }, size) => {
  if (state.ui.comparing) return comparePane(state, size);
  const variant = shownVariant(state);
  const benchmarks = variant?.benchmarks ?? [];
  const comparison = variant?.comparison;
  const simulated = benchmarks.length > 0 ? benchmarks.some((benchmark) => benchmark.simulated) : isSimulated(state);
  const warning: Row[] = simulated ? [[run(padCells(` ${SIMULATED_TEXT}`, size.width), 'simulated')]] : [];
  const badge = simulated ? { badge: SIMULATED_BADGE } : {};
  const count = benchmarks.length + (comparison?.shapes.length ?? 0);
  if (count === 0) return { title: '3 Latency', ...badge, body: [...warning, ...nothingRows(state, 'latency', size)] };
  const selected = Math.min(state.ui.selected.latency, count - 1);
  const rest = { width: size.width, height: size.height - warning.length };
  const rows =
    comparison === undefined
      ? benchmarkRows(state, benchmarks, { ...rest, selected })
      : withComparison(state, { comparison, benchmarks }, { ...rest, selected });
  return {
    title: '3 Latency',
    ...badge,
    remark: positionRemark(selected, count, 'measurement'),
    body: [...warning, ...rows].slice(0, size.height),
  };
};

type Cursor = Size & { readonly selected: number };

/** The table and, below it, the selected distribution. */
function benchmarkRows(
  state: AppState,
  benchmarks: readonly BenchmarkView[],
  { width, height, selected }: Cursor,
): Row[] {
  const table = benchmarkTable(state, benchmarks, { width, height, selected });
  const chosen = benchmarks[selected];
  return [
    ...table,
    separator(width),
    ...(chosen === undefined ? [] : distributionRows(state, chosen, { width, height: height - table.length - 1 })),
  ];
}

const benchmarkTable = (
  state: AppState,
  benchmarks: readonly BenchmarkView[],
  { width, height, selected }: Cursor,
): Row[] =>
  list(COLUMNS, benchmarks, {
    width,
    height: Math.min(benchmarks.length + 1, Math.max(3, Math.floor(height * 0.4))),
    selected,
    focused: state.ui.view === 'latency',
  });

const separator = (width: number): Row => [run('─'.repeat(width), 'border')];

const ROOM_FOR_BOTH = 30;

/**
 * The comparison with the champion comes first, since it was asked for; the cursor goes on into the measurements below
 * it.
 */
function withComparison(
  state: AppState,
  { comparison, benchmarks }: { comparison: ComparisonView; benchmarks: readonly BenchmarkView[] },
  { width, height, selected }: Cursor,
): Row[] {
  const { shapes } = comparison;
  const head = comparisonHead(comparison, width);
  const table = list(COMPARISON_COLUMNS, shapes, {
    width,
    height: Math.min(shapes.length + 1, Math.max(3, Math.floor(height * 0.3))),
    selected,
    focused: state.ui.view === 'latency',
  });
  const chosen = shapes[selected];
  if (chosen === undefined)
    return benchmarkRows(state, benchmarks, { width, height, selected: selected - shapes.length });
  const own =
    height < ROOM_FOR_BOTH || benchmarks.length === 0
      ? []
      : [
          separator(width),
          ...benchmarkTable(state, benchmarks, { width, height: Math.floor(height / 2), selected: -1 }),
        ];
  const above = [...head, ...table, ...own, separator(width)];
  return [...above, ...comparisonDetail(chosen, { width, height: height - above.length })];
}
