/** View 6: jobs of the runner, newest first, or the history of ended experiments. */
import { JobState, type ExperimentSummary, type Job } from '@flashcore/shared';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { formatAge, formatError, formatMicroseconds, formatSeconds } from '../plot/format.ts';
import { BLANK_ROW, run, wrapRows, type Row } from '../plot/row.ts';
import type { Column } from '../plot/table.ts';
import type { AppState } from '../state/app-state.ts';
import { historyOf } from '../state/selectors.ts';
import { KIND_WORDS, jobMark, jobTitle, shortName } from '../state/words.ts';
import { list } from './list.ts';
import { positionRemark, type PaneContent, type Size, type View } from './view.ts';

const COMPACT = 60;
const DETAIL_FROM = 12;

// The rail has no room for figures: it shows jobs whatever the view itself shows.
export const jobsView: View = ({ state }, size) => (state.ui.history && size.width >= COMPACT ? history(state, size) : jobs(state, size));

function jobs(state: AppState, size: Size): PaneContent {
  const title = '6 Jobs';
  if (state.jobs.length === 0) return { title, body: wrapRows('This runner has no job yet. 7 lists the kernels; Enter on one runs it.', size.width, { role: 'dim' }) };
  const columns: Column<Job>[] = [
    { title: 'job', cell: (job) => run(`${jobMark(job).mark}${job.name === state.attached ? '*' : job.name === state.ui.baseline ? 'B' : ' '}${jobTitle(job)}`, jobMark(job).role), shrinkTo: 26 },
    { title: 'kind', drop: 3, cell: ({ kind }) => KIND_WORDS[kind] },
    { title: 'state', drop: 1, cell: (job) => run(jobMark(job).word, jobMark(job).role) },
    ...(size.width < COMPACT ? [] : summaryColumns(state.now)),
  ];
  const selected = state.ui.history ? state.jobs.findIndex(({ name }) => name === state.attached) : state.ui.selected.jobs;
  const isShown = state.jobs.some(({ name }) => name === state.attached);
  const chosen = state.jobs[selected];
  const detail = chosen === undefined || size.height < DETAIL_FROM || state.ui.view !== 'jobs' ? [] : jobDetail(chosen, state.now, size.width);
  const rows = list(columns, state.jobs, { width: size.width, height: size.height - detail.length, selected, focused: state.ui.view === 'jobs' });
  const blank = Array.from({ length: size.height - rows.length - detail.length }, () => BLANK_ROW);
  return { title, remark: `${positionRemark(Math.max(0, selected), state.jobs.length, 'job')}${isShown ? ', * on screen' : ''}`, body: [...rows, ...blank, ...detail] };
}

/** What the table has no room for, at the bottom of the pane. */
function jobDetail(job: Job, now: number, width: number): Row[] {
  const created = job.createTime === undefined ? '' : `, asked for ${formatAge((now - timestampMs(job.createTime)) / 1000)}`;
  const { role, word } = jobMark(job);
  return [
    [run('─'.repeat(width), 'border')],
    ...wrapRows(jobTitle(job), width, { role: 'title' }),
    ...wrapRows(`${word}: ${job.summary === '' ? KIND_WORDS[job.kind] : job.summary}`, width, { role, hang: 2 }).slice(0, 4),
    ...wrapRows(`${KIND_WORDS[job.kind]} ${shortName(job.name)} on ${job.deviceId || 'its device'}${created}`, width, { role: 'dim', hang: 2 }),
  ];
}

const summaryColumns = (now: number): Column<Job>[] => [
  { title: 'took', align: 'right', drop: 2, cell: (job) => tookText(job, now) },
  { title: 'started', align: 'right', drop: 4, cell: ({ createTime }) => (createTime === undefined ? '-' : formatAge((now - timestampMs(createTime)) / 1000)) },
  { title: 'name', drop: 5, cell: ({ name }) => run(shortName(name), 'dim') },
  { title: 'summary', drop: 6, cell: ({ summary }) => run(summary, 'dim'), shrinkTo: 30 },
];

function tookText({ startTime, endTime, state, queuePosition }: Job, now: number): string {
  if (state === JobState.QUEUED) return `${queuePosition} ahead`;
  return startTime === undefined ? '-' : formatSeconds(((endTime === undefined ? now : timestampMs(endTime)) - timestampMs(startTime)) / 1000);
}

const historyColumns = ({ now, ui }: AppState): Column<ExperimentSummary>[] => [
  { title: 'experiment', cell: ({ job }) => (job === undefined ? '-' : run(`${jobMark(job).mark}${job.name === ui.baseline ? 'B' : ' '}${jobTitle(job)}`, jobMark(job).role)), shrinkTo: 16 },
  { title: 'cases', align: 'right', cell: ({ passedCases, cases }) => run(`${passedCases}/${cases}`, passedCases === cases ? undefined : 'bad') },
  { title: 'max err', align: 'right', cell: ({ maxAbsError }) => formatError(maxAbsError) },
  { title: 'p50', align: 'right', drop: 1, cell: ({ p50Us, simulated }) => (p50Us === undefined ? run('-', 'dim') : run(`${formatMicroseconds(p50Us)}${simulated ? ' sim' : ''}`, simulated ? 'warn' : undefined)) },
  { title: 'gates', cell: ({ gatesPassed, gatesFailed, gatesNotMeasured }) => run(`✓${gatesPassed} ✗${gatesFailed} ○${gatesNotMeasured}`, gatesFailed > 0 ? 'bad' : undefined) },
  { title: 'device', drop: 3, cell: ({ deviceName }) => deviceName, shrinkTo: 12 },
  { title: 'source', drop: 4, cell: ({ sourceDigest }) => run(sourceDigest.slice(0, 10), 'dim') },
  { title: 'when', align: 'right', drop: 2, cell: ({ job }) => (job?.createTime === undefined ? '-' : formatAge((now - timestampMs(job.createTime)) / 1000)) },
];

function history(state: AppState, size: Size): PaneContent {
  const title = '6 History';
  const experiments = historyOf(state);
  if (state.experiments.length === 0) return { title, body: wrapRows('No experiment has ended on this runner yet.', size.width, { role: 'dim' }) };
  const selected = state.ui.selected.jobs;
  return { title, remark: `${positionRemark(selected, experiments.length, 'experiment')} by ${state.ui.historySort}${state.ui.historyFilter === '' ? '' : `, only "${state.ui.historyFilter}"`}; sim: not a GPU time`, body: list(historyColumns(state), experiments, { ...size, selected, focused: state.ui.view === 'jobs' }) };
}
