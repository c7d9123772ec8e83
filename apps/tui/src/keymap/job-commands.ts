/** Commands that start, show, cancel and compare jobs, and show their source. */
import { entryOf } from '@flashcore/shared/text';
import { JOB_LISTS, type AppState } from '../state/app-state.ts';
import {
  cancellableJob,
  chosenJob,
  hasRun,
  inJobList,
  inJobs,
  inKernels,
  jobInHand,
  kernelToRun,
  markableJobs,
  markedJobs,
  waitingJobs,
} from '../state/chosen.ts';
import { openAcceptability } from '../state/decision.ts';
import type { JobView } from '../state/job-view.ts';
import { kernelToCopy, kernelsOfProblem, selectedProblem } from '../state/listed-problems.ts';
import { endedRuns, hasLines, filteredList, neighborJob, selectedJobName, selectedKernel } from '../state/selectors.ts';
import { sourceTarget, openListing } from '../state/source-place.ts';
import { next, type CommandRow } from './command.ts';
import { comparing, showsJob } from './view-commands.ts';

const hasRowsToSort = (state: AppState): boolean =>
  inJobs(state) &&
  { jobs: [], history: endedRuns(state), leaderboard: state.leaderboard?.entries ?? [] }[state.ui.jobList].length > 0;

const inBoard = (state: AppState): boolean => inJobs(state) && state.ui.jobList === 'leaderboard';

const chosenView = (state: AppState): JobView | undefined => entryOf(state.views, chosenJob(state) ?? '');

function hasKernel(state: AppState): boolean {
  const listed = selectedProblem(state);
  return listed !== undefined && kernelsOfProblem(state, listed).length > 0;
}

/** False in views where the keys of jobs work, but are not the ones to look for. */
const isAboutJob = (state: AppState): boolean => showsJob(state) || inJobs(state);

function compareHint(state: AppState): string {
  if (!isAboutJob(state)) return '';
  return comparing(state) ? 'back' : 'compare';
}

function pinHint(state: AppState): string {
  if (!isAboutJob(state)) return '';
  return chosenJob(state) === state.ui.pinned ? 'unpin' : 'pin';
}

function faultyHint(state: AppState): string {
  if (inKernels(state)) return 'faulty';
  return state.ui.faulty ? 'no faulty' : '';
}

/** The filter of the list on the screen; empty if there is no filter or no list. */
function filterOf(state: AppState): string {
  const list = filteredList(state);
  return list === undefined ? '' : state.ui.filters[list];
}

/** Why r and R have no kernel to run, and the remedy. */
function noKernelToRun(state: AppState): string {
  if (inKernels(state)) return noKernelIn7(state);
  const job = jobInHand(state);
  if (job === undefined) return inJobs(state) ? NO_ROW : 'No job is shown: 7 lists the kernels, Enter on one runs it';
  const isOwn = state.kernels.find(({ kernelId }) => kernelId === job.kernelId);
  if (isOwn?.manifestError !== undefined) return `${job.kernelId} cannot run: ${isOwn.manifestError}`;
  return `The list of kernels lacks ${job.kernelId}: F in 7 adds the faulty ones, and fa-tui run FOLDER adds a folder of yours`;
}

function noKernelIn7(state: AppState): string {
  const { kernelId, manifestError } = selectedKernel(state) ?? {};
  if (manifestError !== undefined) return `${kernelId} cannot run: ${manifestError}`;
  const { kernels } = state.ui.filters;
  return kernels === '' ? 'No kernel is listed' : `No kernel has "${kernels}": Esc shows all`;
}

/** What a key that acts on the selected row of view 6 says if the list is empty. */
const NO_ROW = 'No row is under the cursor: Esc shows all jobs again, and 6 the jobs of the runner';

/** The answer of a key that needs an ended job. */
const needsEnded =
  (text: string) =>
  (state: AppState): string =>
    inJobs(state) && selectedJobName(state) === undefined ? NO_ROW : text;

/** Must come before the commands that move the cursor, because both groups have the same keys. */
export const MARK_COMMANDS = [
  {
    id: 'mark-job',
    keys: ['space'],
    group: 'jobs',
    help: 'In 6: mark a job, move down; x cancels the marked',
    hint: (state) => (cancellableJob(state) === undefined ? '' : 'mark'),
    when: (state) => inJobList(state) && selectedJobName(state) !== undefined,
    whyNot: '6 lists the jobs; there Space marks one that has not ended',
  },
  {
    id: 'mark-all',
    keys: ['A'],
    group: 'jobs',
    help: 'In 6: mark all listed jobs that have not ended',
    hint: (state) => (markableJobs(state).length > 1 ? 'mark all' : ''),
    when: (state) => markableJobs(state).length > 0,
    whyNot: (state) =>
      inJobList(state)
        ? 'There is nothing to mark: all listed jobs have ended, and x cancels the marked ones'
        : '6 lists the jobs; there A marks those that have not ended, of a filtered list only the rows shown',
  },
  {
    id: 'clear-marks',
    keys: ['escape'],
    group: 'jobs',
    help: 'In 6: clear the marks',
    hint: 'unmark',
    when: (state) => markedJobs(state).length > 0,
  },
] as const satisfies readonly CommandRow[];

const WIDE = 100;

/** In 7 the cursor is on one kernel, and these keys act on that of the job on the screen: its name, if it fits. */
const namedIn7 = (state: AppState, kernelId = ''): string =>
  inKernels(state) && state.ui.columns >= WIDE && kernelId !== '' ? ` ${kernelId}` : '';

/** In 7, `e` edits only folders of the user; of other kernels it shows the source. */
function editHint(state: AppState): string {
  if (hasLines(state)) return 'edit';
  if (!inKernels(state)) return '';
  const kernel = selectedKernel(state);
  return kernel?.folder !== undefined && kernel.isExample !== true ? 'edit' : 'source';
}

export const JOB_COMMANDS = [
  {
    id: 'older-job',
    keys: ['}'],
    group: 'jobs',
    help: 'Next job of the list, older or waiting; view stays',
    hint: (state) => (showsJob(state) && !state.ui.inRail ? '{ other job' : ''),
    when: (state) => showsJob(state) && neighborJob(state, 1) !== undefined,
    whyNot: 'No older job to show: 6 lists the jobs',
  },
  {
    id: 'newer-job',
    keys: ['{'],
    group: 'jobs',
    help: 'Previous job of the list, newer; view stays',
    when: (state) => showsJob(state) && neighborJob(state, -1) !== undefined,
    whyNot: 'No newer job to show: 6 lists the jobs',
  },
  {
    id: 'show-job',
    keys: ['enter'],
    group: 'jobs',
    help: 'In 6: show the selected job',
    hint: 'show',
    when: (state) => inJobs(state) && selectedJobName(state) !== undefined,
  },
  {
    id: 'fix-manifest',
    keys: ['enter'],
    group: 'jobs',
    help: 'In 7: edit a kernel.yaml at its mistake',
    hint: 'edit',
    when: (state) => inKernels(state) && selectedKernel(state)?.manifestError !== undefined,
  },
  {
    id: 'run-kernel',
    keys: ['enter'],
    group: 'jobs',
    help: 'In 7: form to run, tune or verify the kernel',
    hint: 'form',
    when: (state) => inKernels(state) && kernelToRun(state) !== undefined,
  },
  {
    id: 'new-kernel',
    keys: ['N'],
    group: 'jobs',
    help: 'In 7: a copy of the kernel as one of your own',
    hint: 'new',
    when: (state) => kernelToCopy(state) !== undefined,
    whyNot: '7 lists the kernels; there N makes a kernel of yours from the selected one',
  },
  {
    id: 'show-problem',
    keys: ['enter'],
    group: 'jobs',
    help: 'In 7: open the definition of the problem',
    hint: 'definition',
    when: (state) => state.ui.kernelList === 'problems' && selectedProblem(state) !== undefined,
  },
  {
    id: 'run-problem',
    keys: ['enter'],
    group: 'jobs',
    help: 'In a definition: open the form of a kernel of it',
    hint: 'run',
    when: (state) => state.ui.kernelList === 'definition' && hasKernel(state),
    whyNot: 'A definition in 7 whose problem has a kernel opens the form: fa-tui new NAME --problem ID makes one',
  },
  {
    id: 'leave-problem',
    keys: ['escape'],
    group: 'jobs',
    help: 'In 7: from the definition back to the problems',
    hint: 'problems',
    when: (state) => state.ui.kernelList === 'definition' && selectedProblem(state) !== undefined,
  },
  {
    id: 'rerun',
    keys: ['r'],
    group: 'jobs',
    help: 'Run again: in 6 the selected, else the job opened',
    hint: (state) => `${hasRun(state) ? 'rerun' : 'run'}${namedIn7(state, kernelToRun(state)?.kernelId)}`,
    when: (state) => kernelToRun(state) !== undefined,
    whyNot: noKernelToRun,
  },
  {
    id: 'change-form',
    keys: ['R'],
    group: 'jobs',
    help: 'Run again with changes: a form opens first',
    hint: 'form',
    when: (state) => kernelToRun(state) !== undefined,
    whyNot: noKernelToRun,
  },
  {
    id: 'cancel',
    keys: ['x'],
    group: 'jobs',
    help: 'Cancel the job shown; in 6 the marked or selected',
    hint: (state) => {
      if (markedJobs(state).length > 0) return `cancel ${markedJobs(state).length}`;
      return `cancel${namedIn7(state, cancellableJob(state)?.kernelId)}`;
    },
    when: (state) => markedJobs(state).length > 0 || cancellableJob(state) !== undefined,
    whyNot: 'There is nothing to cancel: the job has ended, or none is shown',
  },
  {
    id: 'cancel-waiting',
    keys: ['C'],
    group: 'jobs',
    help: 'Cancel all of your jobs that wait for a device',
    when: (state) => waitingJobs(state).length > 0,
    whyNot: 'None of your jobs waits for a device',
  },
  {
    id: 'pin',
    keys: ['b'],
    group: 'jobs',
    help: 'Pin the job shown, or the selected in 6; and back',
    hint: pinHint,
    when: (state) => chosenJob(state) !== undefined,
    whyNot: needsEnded('Only a job that has ended can be pinned'),
  },
  {
    id: 'compare',
    keys: ['c'],
    group: 'jobs',
    help: 'Compare with the pinned job, and back',
    hint: compareHint,
    when: (state) => state.ui.pinned !== undefined && chosenJob(state) !== undefined,
    whyNot: (state) =>
      state.ui.pinned === undefined
        ? 'Nothing is pinned: b pins a job that has ended, then c on another one compares the two'
        : needsEnded('Only a job that has ended can be compared with the pinned one')(state),
  },
  {
    id: 'accept',
    keys: ['a'],
    group: 'jobs',
    help: 'Accept the result as champion, after a review',
    hint: (state) => (isAboutJob(state) && openAcceptability(state, chosenView(state))?.possible ? 'accept' : ''),
    when: (state) => chosenJob(state) !== undefined,
    whyNot: needsEnded('Only a job that has ended can be accepted'),
  },
  {
    id: 'reject',
    keys: ['X'],
    group: 'jobs',
    help: 'Reject the result, with a note',
    when: (state) => chosenJob(state) !== undefined,
    whyNot: needsEnded('Only a job that has ended can be rejected'),
  },
  {
    id: 'undo',
    keys: ['u'],
    group: 'jobs',
    help: 'Undo the decision about the result',
    when: (state) => chosenJob(state) !== undefined,
    whyNot: needsEnded('Only a job that has ended can have a decision to undo'),
  },
  { id: 'watch-folder', keys: ['W'], group: 'jobs', help: 'Watch a kernel folder: every save runs; again: stop' },
  {
    id: 'next-place',
    keys: ['P'],
    group: 'jobs',
    help: 'In the leaderboard: next device, shape, mode',
    hint: 'place',
    when: (state) => inBoard(state) && (state.leaderboard?.places.length ?? 0) > 1,
    whyNot: 'The leaderboard of this runner is here: 6, then t twice',
  },
  {
    id: 'sort-list',
    keys: ['s'],
    group: 'jobs',
    help: 'Sort the lines in 4, the kernels in 7, the history',
    hint: 'sort',
    when: (state) => hasRowsToSort(state) || inKernels(state) || hasLines(state) || openListing(state) !== undefined,
    whyNot: 'There is nothing to sort here: 4 has lines, 7 kernels, and 6 the history',
  },
  {
    id: 'filter-list',
    keys: ['/'],
    group: 'jobs',
    help: 'In 6 and 7: show only rows with these words',
    hint: 'filter',
    when: (state) => filteredList(state) !== undefined,
  },
  {
    id: 'clear-filter',
    keys: ['escape'],
    group: 'jobs',
    help: 'In 6 and 7: show all rows again',
    hint: 'show all',
    when: (state) => filterOf(state) !== '',
  },
  {
    id: 'history',
    keys: ['t'],
    group: 'jobs',
    help: 'In 6: jobs, history, leaderboard',
    hint: ({ ui }) => next(JOB_LISTS, ui.jobList),
    when: inJobs,
    whyNot: '6 lists the jobs; there t turns to history and leaderboard',
  },
  {
    id: 'problems',
    keys: ['t'],
    group: 'jobs',
    help: 'In 7: kernels, problems',
    hint: ({ ui }) => (ui.kernelList === 'kernels' ? 'problems' : 'kernels'),
    when: ({ ui }) => ui.view === 'kernels',
    whyNot: '7 lists the kernels; there t turns to the problems that kernels can compute',
  },
  {
    id: 'faulty',
    keys: ['F'],
    group: 'jobs',
    help: 'In 7: show faulty kernels too',
    hint: faultyHint,
    when: ({ ui }) => ui.view === 'kernels',
    whyNot: '7 lists the kernels; there F adds those that are faulty on purpose',
  },
  {
    id: 'edit-source',
    keys: ['e'],
    group: 'jobs',
    help: 'Edit the source at the error; in 4 the hot line',
    hint: editHint,
    when: (state) => sourceTarget(state) !== undefined,
    whyNot: 'There is no source to edit: no job is shown',
  },
] as const satisfies readonly CommandRow[];
