/** The runner's jobs in the rail: the activity of running ones and the outcome of ended ones. */
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { JobState, Outcome, type Job } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import { showsJob } from '../../keymap/view-commands.ts';
import { cellWidth, cutCells, padCells } from '../../present/cells/cell-text.ts';
import { fitRow, run, selectRow, windowStart, wrapRows, type Row } from '../../present/cells/row.ts';
import { counted, formatElapsed } from '../../present/numbers.ts';
import { PHASE_WORDS, jobMark, outcomeWord, shortName } from '../../present/words.ts';
import type { AppState } from '../../state/app-state.ts';
import { sourceMark } from '../../state/chosen.ts';
import { listTitle } from '../../state/listed-kernel.ts';
import { hasDuration, neighborJob, railJobsOf, waitText, waitsSince } from '../../state/selectors.ts';
import { noAnswerYet } from '../pane/nothing.ts';
import type { View } from '../pane/view.ts';

const ID_CELLS = 4;
const LEAST_LABEL = 10;

export const jobsRail: View = ({ state }, { width, height }) => {
  const jobs = railJobsOf(state);
  if (jobs.length === 0) return { title: 'Jobs', body: wrapRows(noJobText(state), width, { role: 'dim' }) };
  return {
    title: 'Jobs',
    remark: state.ui.inRail
      ? `j k step, Tab: back, ${counted(jobs.length, 'job')}`
      : `${stepKeys(state)}6: ${counted(jobs.length, 'job')}`,
    body: railJobs(jobs, state.attached, height).map((each) => jobRow(state, each, width)),
  };
};

/** The keys that step through the list, where they work: the rail has no cursor. */
const stepKeys = (state: AppState): string =>
  showsJob(state) && [-1, 1].some((by) => neighborJob(state, by as 1 | -1) !== undefined) ? '{ } step, ' : '';

/** The job in a row of the rail. */
export const jobInRail = (state: AppState, row: number, height: number): Job | undefined =>
  railJobs(railJobsOf(state), state.attached, height)[row]?.job;

const noJobText = (state: AppState): string =>
  state.connection === 'connected' ? 'None yet: 7, then Enter, runs a kernel.' : noAnswerYet(state);

/** Jobs that have not ended stay visible, however old the job shown is. */
function railJobs(jobs: readonly Job[], attached: string | undefined, height: number): readonly RailJob[] {
  const running = jobs.filter(({ state }) => state === JobState.RUNNING).length;
  const open = jobs.filter(({ state }) => state !== JobState.ENDED).length;
  // All running jobs are kept. Waiting jobs are kept as long as running and waiting jobs take at most half of the room.
  const kept = jobs.slice(0, Math.min(height - 1, Math.max(running, Math.min(open, Math.floor(height / 2)))));
  const others = jobs.slice(kept.length);
  const shown = Math.max(
    0,
    others.findIndex(({ name }) => name === attached),
  );
  const room = height - kept.length;
  const start = windowStart({ from: shown, to: shown + 1, count: others.length, height: room });
  const window = others.slice(start, start + room);
  const gapOf = (index: number): RailJob['gap'] => {
    if (index === 0 && start > 0) return '↑';
    return index === window.length - 1 && start + window.length < others.length ? '▾' : ' ';
  };
  return [
    ...kept.map((job): RailJob => ({ job, gap: ' ' })),
    ...window.map((job, index) => ({ job, gap: gapOf(index) })),
  ];
}

interface RailJob {
  readonly job: Job;
  /** An arrow if jobs above or below this row are left out. */
  readonly gap: '↑' | '▾' | ' ';
}

function jobRow(state: AppState, { job, gap }: RailJob, width: number): Row {
  const { mark, role } = jobMark(job);
  const isShown = job.name === state.attached;
  const [word, clock] = tailOf(state, job);
  const room = width - 2 - 2 - ID_CELLS - 1 - 1;
  const pinned = job.name === state.ui.pinned ? 'P ' : '';
  const name = `${pinned}${sourceMark(state, job)}${listTitle(state, job)}`;
  // If there is not enough room, first the time is left out, then "passed", so that words stay whole. Other marks stand
  // for several outcomes.
  const tails = [`${word} ${clock}`.trim(), word, ...(job.outcome === Outcome.PASSED ? [''] : [])];
  const tail = tails.find((text) => room - text.length >= cellWidth(name)) ?? word;
  const labelCells = Math.max(Math.min(LEAST_LABEL, cellWidth(name)), room - tail.length);
  const label = padCells(cutCells(name, labelCells), labelCells);
  const row: Row = [
    run(`${isShown ? '▸' : gap} `),
    run(`${mark} `, role),
    run(`${shortName(job.name).slice(0, ID_CELLS)} `, 'dim'),
    run(label, isShown ? 'title' : 'text'),
    run(` ${tail}`, 'dim'),
  ];
  return isShown && state.ui.inRail ? selectRow(row, width) : fitRow(row, width);
}

/** The end of the row: "bench 58 s", "1 ahead" or "failed 12 s". */
function tailOf(state: AppState, job: Job): [word: string, clock: string] {
  const { name, startTime, endTime, queuePosition } = job;
  if (job.state === JobState.QUEUED) return [`${queuePosition} ahead`, ''];
  const from = startTime === undefined ? undefined : timestampMs(startTime);
  const now = endTime === undefined ? (state.lostAt ?? state.now) : timestampMs(endTime);
  const clock = from === undefined ? '' : formatElapsed((now - from) / 1000);
  if (job.state !== JobState.RUNNING) return [outcomeWord(job), hasDuration(job) ? clock : ''];
  const view = entryOf(state.views, name);
  const phase = view?.phases.at(-1)?.phase;
  const word = phase === undefined ? 'running' : PHASE_WORDS[phase];
  const waits = view !== undefined && waitsSince(view, now) !== undefined;
  return [waits ? (waitText(view, now).split(' ')[0] ?? word) : word, clock];
}
