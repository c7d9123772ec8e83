/** View 6: jobs of the runner, newest first. On request it shows the history or the leaderboard instead. */
import { JobState, type Job } from '@flashcore/shared/contract';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { entryOf } from '@flashcore/shared/text';
import { formatAge } from '../../present/numbers.ts';
import { BLANK_ROW, run, wrapRows, type Row } from '../../present/cells/row.ts';
import type { Column } from '../../present/cells/table.ts';
import type { AppState } from '../../state/app-state.ts';
import { championLegend, championMark, markedJobs, sourceLegend, sourceMark } from '../../state/chosen.ts';
import { listTitle } from '../../state/listed-kernel.ts';
import { isUnseen, unseenLegend } from '../../state/since-left.ts';
import { hiddenText, jobsOf } from '../../state/selectors.ts';
import { KIND_WORDS, jobMark, jobTitle, shortName, stateText, summaryText } from '../../present/words.ts';
import { historyPane, noteRows, pinnedLegend } from './history.ts';
import { leaderboardPane } from './leaderboard-pane.ts';
import { list } from '../pane/list.ts';
import { emptyListRows } from '../pane/nothing.ts';
import { positionRemark, type PaneContent, type Size, type View } from '../pane/view.ts';
import { experimentRows, summaryBeside, tookText } from './experiment-rows.ts';
import { noticeRows } from '../../present/cells/cells-painter.ts';
import { phaseRuns } from '../run/run.ts';

const COMPACT = 60;
const DETAIL_FROM = 12;

// The rail shows jobs even if view 6 shows another list, because it has no room for figures.
export const jobsView: View = ({ state }, size) =>
  (size.width < COMPACT ? jobs : { jobs, history: historyPane, leaderboard: leaderboardPane }[state.ui.jobList])(
    state,
    size,
  );

function jobs(state: AppState, size: Size): PaneContent {
  const title = '6 Jobs';
  const listed = jobsOf(state);
  if (listed.length === 0)
    return {
      title,
      body: emptyListRows(
        state,
        {
          all: state.jobs,
          none: 'This runner has no job yet. 7 lists the kernels; Enter on one runs it.',
          noun: 'job',
          filter: state.ui.filters.jobs,
        },
        size,
      ),
    };
  const columns: Column<Job>[] = [
    ...(size.width < COMPACT ? [] : [{ title: 'id', cell: ({ name }: Job) => run(shortName(name), 'dim') }]),
    {
      title: 'job',
      cell: (job) =>
        run(
          `${jobMark(job).mark} ${placeMark(job, state)}${championMark(state, job.name)}${sourceMark(state, job)}${listTitle(state, job)}`,
          jobMark(job).role,
        ),
      shrinkTo: 16,
    },
    // The line below the list names the kind too.
    { title: 'kind', drop: 6, cell: ({ kind }) => KIND_WORDS[kind] },
    { title: 'state', drop: 3, cell: (job) => run(jobMark(job).word, jobMark(job).role) },
    ...(size.width < COMPACT ? [] : summaryColumns(state.now, size.width)),
  ];
  const selected =
    state.ui.jobList !== 'jobs' ? listed.findIndex(({ name }) => name === state.attached) : state.ui.selected.jobs;
  const isShown = listed.some(({ name }) => name === state.attached);
  const marked = markedJobs(state).length;
  const chosen = listed[selected];
  const detail =
    chosen === undefined || size.height < DETAIL_FROM || state.ui.view !== 'jobs'
      ? []
      : jobPreview(state, chosen, size.width);
  const rows = list(columns, listed, {
    width: size.width,
    height: size.height - detail.length,
    selected,
    focused: state.ui.view === 'jobs',
  });
  const blank = Array.from({ length: size.height - rows.length - detail.length }, () => BLANK_ROW);
  return {
    title,
    remark: `${positionRemark(Math.max(0, selected), listed.length, 'job')}${state.ui.filters.jobs === '' ? '' : `, only "${state.ui.filters.jobs}"`}${isShown ? ', * on screen' : ''}${pinnedLegend(
      state,
      listed.map(({ name }) => name),
    )}${marked > 0 ? `, ${marked} marked` : ''}${state.ui.jobList === 'jobs' ? hiddenText(state) : ''}${championLegend(
      state,
      listed.map(({ name }) => name),
    )}${sourceLegend(state, listed)}${unseenLegend(state, listed)}`,
    body: [...rows, ...blank, ...detail],
  };
}

/** The result or current activity of the job under the cursor, at the bottom of the pane. */
function jobPreview(state: AppState, job: Job, width: number): Row[] {
  const { now } = state;
  const created =
    job.createTime === undefined ? '' : `, submitted ${formatAge((now - timestampMs(job.createTime)) / 1000)}`;
  const { mark, role } = jobMark(job);
  const view = entryOf(state.views, job.name);
  const experiment = state.experiments.find((each) => each.job?.name === job.name);
  const phase = job.state === JobState.RUNNING ? view?.phases.at(-1) : undefined;
  return [
    [run('─'.repeat(width), 'border')],
    ...wrapRows(jobTitle(job), width, { role: 'title' }),
    ...noticeRows(
      {
        kind: 'notice',
        mark,
        role,
        text: stateText(job, job.summary === '' ? KIND_WORDS[job.kind] : summaryBeside(job, experiment)),
      },
      width,
    ).slice(0, MOST_SUMMARY_ROWS),
    ...noteRows(state, job, width),
    ...(phase === undefined || view === undefined ? [] : [phaseRuns(phase, view, now)]),
    ...experimentRows(experiment, width),
    ...wrapRows(`${KIND_WORDS[job.kind]} ${shortName(job.name)} on ${job.deviceId || 'its device'}${created}`, width, {
      role: 'dim',
      hang: 2,
    }),
  ];
}

const MOST_SUMMARY_ROWS = 4;

/** A summary says more than when a job was submitted and of what kind it is. */
const LEAST_SUMMARY = { narrow: 24, wide: 48 };
const WIDE = 100;

const summaryColumns = (now: number, width: number): Column<Job>[] => [
  { title: 'took', align: 'right', drop: 4, cell: (job) => tookText(job, now) },
  {
    title: 'submitted',
    align: 'right',
    drop: 5,
    cell: ({ createTime }) => (createTime === undefined ? '-' : formatAge((now - timestampMs(createTime)) / 1000)),
  },
  // Says why a job failed, so that nobody has to visit every row.
  {
    title: 'summary',
    drop: 2,
    cell: (job) => run(summaryText(job), 'dim'),
    shrinkTo: width < WIDE ? LEAST_SUMMARY.narrow : LEAST_SUMMARY.wide,
  },
];

/** `+` for a marked job, `*` for the job on the screen, `P` for the pinned one, `•` for one that ended meanwhile. */
function placeMark(job: Job, state: AppState): string {
  const { name } = job;
  if (markedJobs(state).some((marked) => marked.name === name)) return '+ ';
  if (name === state.attached) return '* ';
  if (name === state.ui.pinned) return 'P ';
  return isUnseen(state, job) ? '• ' : '  ';
}
