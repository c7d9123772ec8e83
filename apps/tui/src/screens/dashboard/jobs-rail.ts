/** The runner's jobs in the rail: what each does now, how each ended. */
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { JobState, Outcome, type Job } from '@flashcore/shared/contract';
import { cutCells, padCells } from '../../present/cells/cell-text.ts';
import { fitRow, run, windowStart, wrapRows, type Row } from '../../present/cells/row.ts';
import { counted, formatClock } from '../../present/numbers.ts';
import { PHASE_WORDS, jobMark, shortName } from '../../present/words.ts';
import type { AppState } from '../../state/app-state.ts';
import { jobsOf, waitsSince } from '../../state/selectors.ts';
import type { View } from '../pane/view.ts';

const ID_CELLS = 4;
const LEAST_LABEL = 8;
const MOST_FILTER_CELLS = 12;

export const jobsRail: View = ({ state }, { width, height }) => {
  const jobs = jobsOf(state);
  const filter = state.ui.filters.jobs;
  if (state.jobs.length === 0)
    return { title: 'Jobs', body: wrapRows('None yet: 7, then Enter, runs a kernel.', width, { role: 'dim' }) };
  if (jobs.length === 0) {
    const text = `None of ${counted(state.jobs.length, 'job')} has "${filter}": 6, then Esc, shows all.`;
    return { title: 'Jobs', body: wrapRows(text, width, { role: 'warn' }) };
  }
  const shown = jobs.findIndex(({ name }) => name === state.attached);
  const start = windowStart({ from: Math.max(0, shown), to: Math.max(0, shown) + 1, count: jobs.length, height });
  return {
    title: 'Jobs',
    remark:
      filter === ''
        ? counted(jobs.length, 'job')
        : `${jobs.length} of ${counted(state.jobs.length, 'job')}, only "${cutCells(filter, MOST_FILTER_CELLS)}"`,
    body: jobs.slice(start, start + height).map((job) => jobRow(state, job, width)),
  };
};

function jobRow(state: AppState, job: Job, width: number): Row {
  const { mark, role } = jobMark(job);
  const isShown = job.name === state.attached;
  const tail = tailOf(state, job);
  const labelCells = Math.max(LEAST_LABEL, width - 2 - 2 - ID_CELLS - 1 - 1 - tail.length);
  const label = padCells(cutCells(job.label || job.kernelId, labelCells), labelCells);
  const row: Row = [
    run(isShown ? '▸ ' : '  '),
    run(`${mark} `, role),
    run(`${shortName(job.name).slice(0, ID_CELLS)} `, 'dim'),
    run(label, isShown ? 'title' : 'text'),
    run(` ${tail}`, 'dim'),
  ];
  return fitRow(row, width);
}

/** In a rail a word has eight cells; 6 Jobs has the whole ones. */
const OUTCOMES: Record<Outcome, string> = {
  [Outcome.UNSPECIFIED]: '',
  [Outcome.PASSED]: 'passed',
  [Outcome.FAILED]: 'failed',
  [Outcome.COMPILE_FAILED]: 'compile',
  [Outcome.WRONG_RESULT]: 'wrong',
  [Outcome.CRASHED]: 'crashed',
  [Outcome.TIMED_OUT]: 'hung',
  [Outcome.OUT_OF_MEMORY]: 'memory',
  [Outcome.CANCELLED]: 'stopped',
  [Outcome.ERROR]: 'error',
  [Outcome.INTERRUPTED]: 'cut off',
};

/** "bench 0:58", "1 ahead", "failed 0:12". */
function tailOf({ views, now }: AppState, { name, state, startTime, endTime, queuePosition, outcome }: Job): string {
  if (state === JobState.QUEUED) return `${queuePosition} ahead`;
  const from = startTime === undefined ? undefined : timestampMs(startTime);
  const clock =
    from === undefined ? '' : formatClock(((endTime === undefined ? now : timestampMs(endTime)) - from) / 1000);
  if (state !== JobState.RUNNING) return `${OUTCOMES[outcome]} ${clock}`.trim();
  const view = views[name];
  const phase = view?.phases.at(-1)?.phase;
  const word = phase === undefined ? 'running' : PHASE_WORDS[phase];
  return `${view !== undefined && waitsSince(view, now) !== undefined ? 'waits' : word} ${clock}`.trim();
}
