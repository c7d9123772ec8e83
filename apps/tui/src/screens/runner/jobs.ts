/** View 6: jobs of the runner, newest first. On request it shows the history or the leaderboard instead. */
import { JobState, Outcome, type Job } from '@flashcore/shared/contract';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { entryOf } from '@flashcore/shared/text';
import { cellWidth } from '../../present/cells/cell-text.ts';
import { formatSpan } from '../../present/numbers.ts';
import { BLANK_ROW, firstRows, run, wrapRows, type Row } from '../../present/cells/row.ts';
import type { Column } from '../../present/cells/table.ts';
import type { AppState } from '../../state/app-state.ts';
import { championLegend, championMark, inJobs, markedJobs, sourceLegend, sourceMark } from '../../state/chosen.ts';
import { withNotesNow } from '../../state/decision.ts';
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
  const selected =
    state.ui.jobList !== 'jobs' ? listed.findIndex(({ name }) => name === state.attached) : state.ui.selected.jobs;
  const marked = markedJobs(state).length;
  const chosen = listed[selected];
  const isTall = size.height >= DETAIL_FROM && state.ui.view === 'jobs';
  const detail = !isTall || chosen === undefined ? [] : jobPreview(state, chosen, size);
  const legend = legendText(state, listed);
  const legendRows = !isTall || legend === '' ? [] : [BLANK_ROW, ...wrapRows(legend, size.width, { role: 'dim' })];
  const below = [...legendRows, ...detail];
  const rows = list(columnsOf(state, listed, size.width), listed, {
    width: size.width,
    height: size.height - below.length,
    selected,
    focused: inJobs(state),
  });
  const blank = Array.from({ length: size.height - rows.length - below.length }, () => BLANK_ROW);
  const remark = [
    positionRemark(Math.max(0, selected), listed.length, 'job'),
    state.ui.filters.jobs === '' ? '' : `, only "${state.ui.filters.jobs}"`,
    marked > 0 ? `, ${marked} marked` : '',
    state.ui.jobList === 'jobs' ? hiddenText(state) : '',
    isTall || legend === '' ? '' : `, ${legend}`,
  ];
  return { title, remark: remark.join(''), body: [...rows, ...blank, ...below] };
}

/** The meaning of the marks that the listed jobs have, such as "* on screen, P pinned". */
function legendText(state: AppState, listed: readonly Job[]): string {
  const names = listed.map(({ name }) => name);
  const marked = markedJobs(state).length > 0 ? ', # marked' : '';
  const onScreen = names.some((name) => name === state.attached) ? ', * on screen' : '';
  return `${onScreen}${marked}${pinnedLegend(state, names)}${championLegend(state, names)}${sourceLegend(state, listed)}${unseenLegend(state, listed)}`.replace(
    /^, /,
    '',
  );
}

/** Cells of the list's cursor and of the gap between two columns. */
const CURSOR = 2;
const GAP = 2;
const CELLS = { id: 8, kind: 10, state: 15, took: 11, submitted: 10, age: 6 };

/**
 * Columns of fixed widths, so that none moves or vanishes when a job ends and has a summary. Names have as much room as
 * the longest of them needs. The last column has the room that is left: the reason why a job failed, so that nobody has
 * to visit every row.
 */
function columnsOf(state: AppState, listed: readonly Job[], width: number): Column<Job>[] {
  const nameOf = (job: Job) =>
    run(
      `${jobMark(job).mark} ${placeMark(job, state)}${championMark(state, job.name)}${sourceMark(state, job)}${listTitle(state, job)}`,
      jobMark(job).role,
    );
  if (width < COMPACT)
    return [
      { title: 'job', cell: nameOf, shrinkTo: 16 },
      { title: 'state', drop: 3, cell: (job) => run(jobMark(job).word, jobMark(job).role) },
    ];
  const isWide = width >= WIDE;
  const longest = Math.max(...listed.map((job) => cellWidth(nameOf(job).text)));
  const columns: (Column<Job> & { readonly cells: number })[] = [
    { title: 'id', cells: CELLS.id, cell: ({ name }) => run(shortName(name), 'dim') },
    { title: 'job', cells: Math.min(longest, Math.max(LEAST_NAME, Math.floor(width * NAME_SHARE))), cell: nameOf },
    // The line below the list names the kind too.
    ...(isWide ? [{ title: 'kind', cells: CELLS.kind, cell: ({ kind }: Job) => KIND_WORDS[kind] }] : []),
    { title: 'took', cells: CELLS.took, align: 'right', cell: (job) => tookText(job, state.now) },
    isWide
      ? { title: 'submitted', cells: CELLS.submitted, align: 'right', cell: (job) => submittedText(job, state.now) }
      : { title: 'age', cells: CELLS.age, align: 'right', cell: (job) => ageText(job, state.now) },
    ...(isWide
      ? [{ title: 'state', cells: CELLS.state, cell: (job: Job) => run(jobMark(job).word, jobMark(job).role) }]
      : []),
  ];
  const rest = width - CURSOR - columns.reduce((sum, { cells }) => sum + cells + GAP, 0);
  return [
    ...columns,
    isWide
      ? { title: 'summary', cells: rest, cell: (job) => run(summaryText(job), 'dim') }
      : { title: 'state', cells: rest, cell: (job) => run(stateWithin(job, rest), jobMark(job).role) },
  ];
}

/** The state and the reason; only the state if the reason is cut and says little, as that of a cancelled job does. */
function stateWithin(job: Job, cells: number): string {
  const text = stateText(job);
  const isStopped = job.outcome === Outcome.CANCELLED || job.outcome === Outcome.INTERRUPTED;
  return isStopped && cellWidth(text) > cells ? jobMark(job).word : text;
}

const LEAST_NAME = 20;
const NAME_SHARE = 0.27;

/** The time since the submission, such as "12 min". */
const ageText = ({ createTime }: Job, now: number): string =>
  createTime === undefined ? '-' : formatSpan((now - timestampMs(createTime)) / 1000);

const submittedText = (job: Job, now: number): string =>
  job.createTime === undefined ? '-' : `${ageText(job, now)} ago`;

/** The result or current activity of the job under the cursor, at the bottom of the pane. */
function jobPreview(state: AppState, job: Job, { width, height }: Size): Row[] {
  const { now } = state;
  const { mark, role } = jobMark(job);
  const view = entryOf(state.views, job.name);
  const experiment = state.experiments.find((each) => each.job?.name === job.name);
  const phase = job.state === JobState.RUNNING ? view?.phases.at(-1) : undefined;
  const text = stateText(job, job.summary === '' ? KIND_WORDS[job.kind] : summaryBeside(job, experiment));
  const summary = noticeRows({ kind: 'notice', mark, role, text }, width);
  const submitted = job.createTime === undefined ? '' : `, submitted ${submittedText(job, now)}`;
  const above = [[run('─'.repeat(width), 'border')], ...wrapRows(jobTitle(job), width, { role: 'title' })];
  const below = [
    ...noteRows(state, job, width),
    ...(phase === undefined || view === undefined ? [] : [phaseRuns(phase, view, now)]),
    ...experimentRows(experiment && withNotesNow(state, experiment), width),
    ...wrapRows(
      `${KIND_WORDS[job.kind]} ${shortName(job.name)} on ${job.deviceId || 'its device'}${submitted}`,
      width,
      {
        role: 'dim',
        hang: 2,
      },
    ),
  ];
  const room = Math.floor(height * PREVIEW_SHARE) - above.length - below.length;
  return [...above, ...firstRows(summary, Math.max(LEAST_SUMMARY_ROWS, room), width), ...below];
}

/** The largest share of the pane for a summary together with the lines above and below it. */
const PREVIEW_SHARE = 0.5;
const LEAST_SUMMARY_ROWS = 4;
const WIDE = 100;

/**
 * `#` for a marked job, `*` for the job on the screen, `•` for one that ended meanwhile. `P` for the pinned job comes
 * alone or after another mark.
 */
function placeMark(job: Job, state: AppState): string {
  const { name } = job;
  const pinned = name === state.ui.pinned ? 'P ' : '';
  if (markedJobs(state).some((marked) => marked.name === name)) return `# ${pinned}`;
  if (name === state.attached) return `* ${pinned}`;
  if (pinned !== '') return pinned;
  return isUnseen(state, job) ? '• ' : '  ';
}
