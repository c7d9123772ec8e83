/** View 3: latency of every shape, mode and subject, and the distribution of the selected one, live. */
import { run, type Row } from '../../present/cells/row.ts';
import type { ComparisonView } from '../../state/live-comparison.ts';
import type { AppState } from '../../state/app-state.ts';
import type { BenchmarkView } from '../../state/job-view.ts';
import { attachedJob, isSimulated, shownVariant } from '../../state/selectors.ts';
import { comparisonDetail, comparisonHead } from './comparison.ts';
import { comparePane } from '../pinned/pinned-pages.ts';
import { distributionRows } from '../distribution/distribution.ts';
import { upperList } from '../pane/list.ts';
import { racePane } from './tune-race.ts';
import { nothingRows } from '../pane/nothing.ts';
import { SIMULATED_BADGE, positionRemark, type Size, type View } from '../pane/view.ts';
import { sharedText } from '../../present/sections/case-columns.ts';
import { pairColumns } from '../../present/sections/comparison.ts';
import { timingColumns } from '../../present/sections/timings.ts';

export const latencyView: View = ({ state }, size) => {
  if (state.ui.comparing) return comparePane(state, size);
  const race = racePane(attachedJob(state), '3 Latency', {
    ...size,
    selected: state.ui.selected.latency,
    focused: state.ui.view === 'latency',
  });
  if (race) return race;
  const variant = shownVariant(state);
  const benchmarks = variant?.benchmarks ?? [];
  const comparison = variant?.comparison;
  const simulated = benchmarks.length > 0 ? benchmarks.some((benchmark) => benchmark.simulated) : isSimulated(state);
  const badge = simulated ? { badge: SIMULATED_BADGE } : {};
  const count = benchmarks.length + (comparison?.shapes.length ?? 0);
  if (count === 0) return { title: '3 Latency', ...badge, body: nothingRows(state, 'latency', size) };
  const selected = Math.min(state.ui.selected.latency, count - 1);
  const rows =
    comparison === undefined
      ? benchmarkRows(state, benchmarks, { ...size, selected })
      : withComparison(state, { comparison, benchmarks }, { ...size, selected });
  const shared = sharedText(
    [...(comparison?.shapes ?? []), ...benchmarks].map(({ shape }) => shape),
    size.width,
  );
  return {
    title: `3 Latency${shared && `  ${shared}`}`,
    ...badge,
    remark: positionRemark(selected, count, 'measurement'),
    body: rows.slice(0, size.height),
  };
};

type Cursor = Size & { readonly selected: number };

/** The table with the selected distribution below it. */
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
  upperList(timingColumns(benchmarks, width), benchmarks, {
    width,
    height,
    share: 0.4,
    selected,
    focused: state.ui.view === 'latency',
  });

const separator = (width: number): Row => [run('─'.repeat(width), 'border')];

const ROOM_FOR_BOTH = 30;

/**
 * The comparison with the champion comes first because it was requested; the cursor continues into the measurements
 * below it.
 */
function withComparison(
  state: AppState,
  { comparison, benchmarks }: { comparison: ComparisonView; benchmarks: readonly BenchmarkView[] },
  { width, height, selected }: Cursor,
): Row[] {
  const { shapes } = comparison;
  const head = comparisonHead(comparison, width);
  const table = upperList(pairColumns(shapes, width), shapes, {
    width,
    height,
    share: 0.3,
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
