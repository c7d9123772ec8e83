/**
 * Ended experiments, and the leaderboard of the runner's device: both sorted and filtered, any two of their rows
 * compared by b and c.
 */
import type { ExperimentSummary, LeaderboardEntry, LeaderboardPlace } from '@flashcore/shared/contract';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { formatShape } from '@flashcore/shared/kernels';
import { gatesRole, gatesText } from '../../present/sections/lists.ts';
import { formatAge, formatError, formatMicroseconds, formatSpeedup } from '../../present/numbers.ts';
import { run, wrapRows, BLANK_ROW, type Row } from '../../present/cells/row.ts';
import type { Column } from '../../present/cells/table.ts';
import type { AppState } from '../../state/app-state.ts';
import { historyOf, leaderboardOf } from '../../state/selectors.ts';
import { MODE_WORDS, jobMark, jobTitle, shortName, summaryText } from '../../present/words.ts';
import { list } from '../pane/list.ts';
import { positionRemark, type PaneContent, type Size } from '../pane/view.ts';
import { experimentRows } from './experiment-rows.ts';

const pinnedMark = ({ ui }: AppState, job: string | undefined): string =>
  job !== undefined && job === ui.pinned ? 'A' : ' ';

const historyColumns = (state: AppState): Column<ExperimentSummary>[] => [
  { title: 'id', drop: 5, cell: ({ job }) => run(job === undefined ? '-' : shortName(job.name), 'dim') },
  {
    title: 'experiment',
    cell: ({ job }) =>
      job === undefined
        ? '-'
        : run(`${jobMark(job).mark}${pinnedMark(state, job.name)}${jobTitle(job)}`, jobMark(job).role),
    shrinkTo: 20,
  },
  {
    title: 'cases',
    align: 'right',
    cell: ({ passedCases, cases }) =>
      cases === 0 ? run('-', 'dim') : run(`${passedCases}/${cases}`, passedCases === cases ? undefined : 'bad'),
  },
  {
    title: 'max err',
    align: 'right',
    drop: 3,
    cell: ({ maxAbsError, cases }) => (cases === 0 ? run('-', 'dim') : formatError(maxAbsError)),
  },
  {
    title: 'p50 hot',
    align: 'right',
    cell: ({ p50Us, simulated }) =>
      p50Us === undefined
        ? run('-', 'dim')
        : run(`${formatMicroseconds(p50Us)}${simulated ? ' sim' : ''}`, simulated ? 'warn' : undefined),
  },
  {
    title: 'gates',
    cell: (experiment) => run(gatesText(experiment), gatesRole(experiment)),
  },
  { title: 'device', drop: 4, cell: ({ deviceName }) => deviceName, shrinkTo: 12 },
  { title: 'source', drop: 6, cell: ({ sourceDigest }) => run(sourceDigest.slice(0, 10), 'dim') },
  {
    title: 'when',
    align: 'right',
    drop: 2,
    cell: ({ job }) =>
      job?.createTime === undefined ? '-' : formatAge((state.now - timestampMs(job.createTime)) / 1000),
  },
];

const sortRemark = ({ ui }: AppState): string =>
  ` by ${ui.historySort}${ui.filters.history === '' ? '' : `, only "${ui.filters.history}"`}`;

export function historyPane(state: AppState, size: Size): PaneContent {
  const title = '6 History';
  const experiments = historyOf(state);
  if (state.experiments.length === 0)
    return {
      title,
      body: wrapRows(
        'No experiment has ended on this runner yet. 7, then Enter, runs one; t shows the leaderboard.',
        size.width,
        { role: 'dim' },
      ),
    };
  if (experiments.length === 0)
    return {
      title,
      body: wrapRows(
        `No experiment has "${state.ui.filters.history}". / changes the filter, Esc shows all.`,
        size.width,
        {
          role: 'warn',
        },
      ),
    };
  const selected = state.ui.selected.jobs;
  const simulated = experiments.some((experiment) => experiment.simulated) ? '; sim: not a GPU time' : '';
  return {
    title,
    remark: `${positionRemark(selected, experiments.length, 'experiment')}${sortRemark(state)}${simulated}`,
    body: withPreview(state, experiments, size),
  };
}

const PREVIEW_FROM = 12;

/** The list, and below it what the experiment under the cursor found. */
function withPreview(state: AppState, experiments: readonly ExperimentSummary[], size: Size): Row[] {
  const selected = state.ui.selected.jobs;
  const chosen = experiments[selected];
  const preview =
    chosen === undefined || size.height < PREVIEW_FROM
      ? []
      : [
          [run('─'.repeat(size.width), 'border')],
          ...wrapRows(chosen.job === undefined ? '' : summaryText(chosen.job), size.width).slice(0, 2),
          ...experimentRows(chosen, size.width),
        ];
  const rows = list(historyColumns(state), experiments, {
    width: size.width,
    height: size.height - preview.length,
    selected,
    focused: state.ui.view === 'jobs',
  });
  const blank = Array.from({ length: size.height - rows.length - preview.length }, () => BLANK_ROW);
  return [...rows, ...blank, ...preview];
}

type Ranked = LeaderboardEntry & { readonly rank: number; readonly behind: number };

const leaderboardColumns = (state: AppState): Column<Ranked>[] => [
  { title: '#', align: 'right', cell: ({ rank }) => run(String(rank), rank === 1 ? 'good' : 'dim') },
  {
    title: 'kernel and variant',
    cell: ({ label, job }) => run(`${pinnedMark(state, job)}${label}`, 'title'),
    shrinkTo: 24,
  },
  {
    title: 'p50 hot',
    align: 'right',
    cell: ({ latency }) => (latency === undefined ? '-' : formatMicroseconds(latency.p50Us)),
  },
  {
    title: '95 %',
    align: 'right',
    drop: 3,
    cell: ({ latency }) =>
      latency === undefined
        ? '-'
        : `${formatMicroseconds(latency.p50LowUs, latency.p50Us)}..${formatMicroseconds(latency.p50HighUs, latency.p50Us)}`,
  },
  {
    title: 'to the first',
    align: 'right',
    drop: 1,
    cell: ({ behind }) => (behind === 0 ? run('first', 'good') : `+${(behind * 100).toFixed(1)} %`),
  },
  {
    title: 'against SDPA',
    align: 'right',
    cell: ({ speedup }) =>
      speedup === undefined ? run('-', 'dim') : run(formatSpeedup(speedup), speedup > 1 ? 'good' : 'bad'),
  },
  { title: 'n', align: 'right', drop: 5, cell: ({ latency }) => String(latency?.samples ?? '-') },
  { title: 'id', drop: 4, cell: ({ job }) => run(shortName(job), 'dim') },
  {
    title: 'when',
    align: 'right',
    drop: 2,
    cell: ({ time }) => (time === undefined ? '-' : formatAge((state.now - timestampMs(time)) / 1000)),
  },
];

/** "2x8x512x64 hot, NVIDIA H200". */
const placeText = ({ shape, mode, deviceName }: LeaderboardPlace): string =>
  [`${shape ? formatShape(shape) : ''} ${MODE_WORDS[mode]}`.trim(), deviceName].filter(Boolean).join(', ');

export function leaderboardPane(state: AppState, size: Size): PaneContent {
  const place = state.leaderboard?.place;
  const title = place ? `6 Leaderboard  ${placeText(place)}` : '6 Leaderboard';
  if (state.leaderboard === undefined)
    return {
      title,
      body: wrapRows(
        state.connection === 'connected'
          ? 'Reading the leaderboard.'
          : `No answer from ${state.runner.label} yet: fa-tui keeps trying.`,
        size.width,
        { role: 'dim' },
      ),
    };
  if (state.leaderboard.entries.length === 0)
    return {
      title,
      body: wrapRows(`${state.leaderboard.emptyReason ?? 'No entry'}. t shows the jobs.`, size.width, { role: 'dim' }),
    };
  const best = Math.min(...state.leaderboard.entries.map(({ latency }) => latency?.p50Us ?? Infinity));
  const entries = leaderboardOf(state).map((entry): Ranked => ({
    ...entry,
    rank: (state.leaderboard?.entries.indexOf(entry) ?? 0) + 1,
    behind: (entry.latency?.p50Us ?? NaN) / best - 1,
  }));
  if (entries.length === 0)
    return {
      title,
      body: wrapRows(`No entry has "${state.ui.filters.history}". / changes the filter, Esc shows all.`, size.width, {
        role: 'warn',
      }),
    };
  const selected = state.ui.selected.jobs;
  const { leftOut } = state.leaderboard;
  const remarks = leftOut === undefined ? [] : wrapRows(`${leftOut}.`, size.width, { role: 'dim' });
  const rows = list(leaderboardColumns(state), entries, {
    ...size,
    height: Math.max(0, size.height - remarks.length),
    selected,
    focused: state.ui.view === 'jobs',
  });
  return {
    title,
    remark: `${positionRemark(selected, entries.length, 'variant')}${sortRemark(state)}`,
    body: [...rows, ...remarks],
  };
}
