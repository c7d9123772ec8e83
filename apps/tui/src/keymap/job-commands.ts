/** Starting, showing, cancelling and comparing jobs; their source. */
import { JOB_LISTS, type AppState } from '../state/app-state.ts';
import { cancellableJob, chosenJob, inJobs, inKernels, kernelToRun } from '../state/chosen.ts';
import { openAcceptability } from '../state/decision.ts';
import type { JobView } from '../state/job-view.ts';
import { filteredList, selectedJobName } from '../state/selectors.ts';
import { sourceTarget } from '../state/source-place.ts';
import { next, type CommandRow } from './command.ts';

const inHistory = (state: AppState): boolean => inJobs(state) && state.ui.jobList !== 'jobs';

const inBoard = (state: AppState): boolean => inJobs(state) && state.ui.jobList === 'leaderboard';

const chosenView = (state: AppState): JobView | undefined => state.views[chosenJob(state) ?? ''];

/** What the list on the screen is filtered by; empty: it is not, or there is none. */
function filterOf(state: AppState): string {
  const list = filteredList(state);
  return list === undefined ? '' : state.ui.filters[list];
}

const NOT_THE_RUNNERS =
  'Only kernels of the runner run by a key, and 7 lists them: W watches a folder of yours, fa-tui run FOLDER runs it';

export const JOB_COMMANDS = [
  {
    id: 'show-job',
    keys: ['enter'],
    group: 'jobs',
    help: 'In 6 Jobs: show the job under the cursor',
    hint: 'show',
    when: (state) => inJobs(state) && selectedJobName(state) !== undefined,
  },
  {
    id: 'run-kernel',
    keys: ['enter'],
    group: 'jobs',
    help: 'In 7 Kernels: choose how to run it, Enter runs',
    hint: 'run',
    when: (state) => inKernels(state) && kernelToRun(state) !== undefined,
  },
  {
    id: 'rerun',
    keys: ['r'],
    group: 'jobs',
    help: 'Run the last form again, else this kernel',
    hint: 'rerun',
    when: (state) => kernelToRun(state) !== undefined,
    whyNot: NOT_THE_RUNNERS,
  },
  {
    id: 'change-form',
    keys: ['R'],
    group: 'jobs',
    help: 'The form of the last run, to change and run',
    hint: 'form',
    when: (state) => kernelToRun(state) !== undefined,
    whyNot: NOT_THE_RUNNERS,
  },
  {
    id: 'cancel',
    keys: ['x'],
    group: 'jobs',
    help: 'Cancel the job shown, or in 6 the one marked',
    hint: 'cancel',
    when: (state) => cancellableJob(state) !== undefined,
    whyNot: 'There is nothing to cancel: no job is shown, or it has ended',
  },
  {
    id: 'pin',
    keys: ['b'],
    group: 'jobs',
    help: 'Pin the job shown, or in 6 the one marked',
    hint: 'pin',
    when: (state) => chosenJob(state) !== undefined,
  },
  {
    id: 'compare',
    keys: ['c'],
    group: 'jobs',
    help: 'Compare that job with the pinned one, and back',
    hint: 'compare',
    when: (state) => state.ui.pinned !== undefined && chosenJob(state) !== undefined,
    whyNot: 'There is nothing to compare: b pins a job that has ended, c on another compares the two',
  },
  {
    id: 'accept',
    keys: ['a'],
    group: 'jobs',
    help: 'Accept that result as champion, after a look at it',
    hint: (state) => (openAcceptability(state, chosenView(state))?.possible ? 'accept' : ''),
    when: (state) => chosenJob(state) !== undefined,
  },
  {
    id: 'reject',
    keys: ['X'],
    group: 'jobs',
    help: 'Reject that result, with a note',
    when: (state) => chosenJob(state) !== undefined,
  },
  {
    id: 'undo',
    keys: ['u'],
    group: 'jobs',
    help: 'Undo what was decided about that result',
    when: (state) => chosenJob(state) !== undefined,
  },
  { id: 'watch-folder', keys: ['W'], group: 'jobs', help: 'Watch a kernel folder: every save runs; again: stop' },
  {
    id: 'next-place',
    keys: ['P'],
    group: 'jobs',
    help: 'In the leaderboard: next device, shape, mode',
    hint: 'place',
    when: (state) => inBoard(state) && (state.leaderboard?.places.length ?? 0) > 1,
  },
  {
    id: 'sort-list',
    keys: ['s'],
    group: 'jobs',
    help: 'In history, leaderboard, 7: order of the rows',
    hint: 'sort',
    when: (state) => inHistory(state) || inKernels(state),
  },
  {
    id: 'filter-list',
    keys: ['/'],
    group: 'jobs',
    help: 'In 6 and 7: only rows with these words',
    hint: 'filter',
    when: (state) => filteredList(state) !== undefined,
  },
  {
    id: 'clear-filter',
    keys: ['escape'],
    group: 'jobs',
    help: 'There: all rows again',
    hint: 'show all',
    when: (state) => filterOf(state) !== '',
  },
  {
    id: 'history',
    keys: ['t'],
    group: 'jobs',
    help: 'In 6 Jobs: jobs, history, leaderboard',
    hint: ({ ui }) => next(JOB_LISTS, ui.jobList),
    when: inJobs,
  },
  {
    id: 'faulty',
    keys: ['F'],
    group: 'jobs',
    help: 'In 7 Kernels: also those faulty on purpose',
    hint: 'faulty',
    when: inKernels,
  },
  {
    id: 'edit-source',
    keys: ['e'],
    group: 'jobs',
    help: 'Edit the source at its error: $VISUAL, $EDITOR',
    when: (state) => sourceTarget(state) !== undefined,
  },
] as const satisfies readonly CommandRow[];
