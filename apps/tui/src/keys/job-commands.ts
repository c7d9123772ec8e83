/** Starting, showing and cancelling jobs. */
import { JobState } from '@flashcore/shared/contract';
import { HISTORY_SORTS, JOB_LISTS, type AppState } from '../state/app-state.ts';
import { formOf } from '../state/run-form.ts';
import { attachedJob, filteredList, selectedJobName, selectedKernel } from '../state/selectors.ts';
import { jobTitle } from '../state/words.ts';
import { next, type Command } from './command.ts';
import { formContextOf, openForm, startForm } from './form-keys.ts';

const inJobs = ({ ui }: AppState): boolean => ui.view === 'jobs';
const inHistory = (state: AppState): boolean => inJobs(state) && state.ui.jobList !== 'jobs';
/** What the list on the screen is filtered by; empty: it is not, or there is none. */
function filterOf(state: AppState): string {
  const list = filteredList(state);
  return list === undefined ? '' : state.ui.filters[list];
}

const inKernels = ({ ui }: AppState): boolean => ui.view === 'kernels';

export const JOB_COMMANDS: Command[] = [
  {
    id: 'show-job',
    keys: ['enter', 'a'],
    group: 'jobs',
    help: 'In 6 Jobs: show the job under the cursor',
    hint: 'show',
    when: (state) => inJobs(state) && selectedJobName(state) !== undefined,
    run: ({ store, session }) => {
      const job = selectedJobName(store.state);
      if (job === undefined) return;
      session.attach(job);
      store.dispatch({ type: 'show', view: 'run' });
    },
  },
  {
    id: 'run-kernel',
    keys: ['enter'],
    group: 'jobs',
    help: 'In 7 Kernels: choose how to run it, Enter runs',
    hint: 'run',
    when: (state) => inKernels(state) && selectedKernel(state)?.manifestError === '',
    run: (context) => {
      const kernel = selectedKernel(context.store.state);
      if (kernel !== undefined) openForm(context, formOf(kernel, formContextOf(context.store.state)));
    },
  },
  {
    id: 'rerun',
    keys: ['r'],
    group: 'jobs',
    help: 'Run the last form again, else this kernel',
    hint: 'rerun',
    when: (state) => kernelToRun(state) !== undefined,
    run: (context) => {
      const { lastForm } = context.store.state.ui;
      const kernelId = kernelToRun(context.store.state);
      if (lastForm !== undefined && kernelId === lastForm.form.kernel.kernelId)
        startForm(context, lastForm.form, lastForm.defaults);
      else if (kernelId !== undefined) context.session.runKernel(kernelId);
    },
  },
  {
    id: 'change-form',
    keys: ['R'],
    group: 'jobs',
    help: 'The form of the last run, to change and run',
    hint: 'form',
    when: (state) => kernelToRun(state) !== undefined,
    run: (context) => {
      const { state } = context.store;
      const kernelId = kernelToRun(state);
      const kernel = state.kernels.find((known) => known.kernelId === kernelId);
      const { lastForm } = state.ui;
      if (lastForm !== undefined && kernelId === lastForm.form.kernel.kernelId)
        openForm(context, lastForm.form, lastForm.defaults);
      else if (kernel !== undefined) openForm(context, formOf(kernel, formContextOf(state)));
    },
  },
  {
    id: 'cancel',
    keys: ['x'],
    group: 'jobs',
    help: 'Cancel the job shown, or in 6 the one marked',
    hint: 'cancel',
    when: (state) => cancellable(state) !== undefined,
    run: ({ store }) => {
      const job = cancellable(store.state);
      if (job !== undefined)
        store.dispatch({
          type: 'overlay',
          overlay: { kind: 'confirm', question: `Cancel ${job.title}?`, commandId: 'cancel', subject: job.name },
        });
    },
  },
  {
    id: 'baseline',
    keys: ['b'],
    group: 'jobs',
    help: 'Baseline: the job shown, or in 6 the one marked',
    hint: 'baseline',
    when: (state) => chosenJob(state) !== undefined,
    run: ({ store }) => {
      const job = chosenJob(store.state);
      if (job === undefined) return;
      store.dispatch({ type: 'baseline', job });
      store.dispatch({
        type: 'notice',
        text: `Baseline: ${titleOf(store.state, job)}. c on another job compares it with this one`,
        tone: 'info',
      });
    },
  },
  {
    id: 'compare',
    keys: ['c'],
    group: 'jobs',
    help: 'Compare that job with the baseline, and back',
    hint: 'compare',
    when: (state) => state.ui.baseline !== undefined && chosenJob(state) !== undefined,
    run: ({ store, session }) => {
      const [job, { baseline, comparing, view }] = [chosenJob(store.state), store.state.ui];
      if (comparing && view === 'latency') store.dispatch({ type: 'compare', on: false });
      else if (job === baseline)
        store.dispatch({
          type: 'notice',
          text: 'This job is the baseline itself; choose another in 6 Jobs, then c',
          tone: 'warn',
        });
      else if (job !== undefined && baseline !== undefined) void session.compare(job, baseline);
    },
  },
  {
    id: 'watch-folder',
    keys: ['W'],
    group: 'jobs',
    help: 'Watch a kernel folder: every save runs; again: stop',
    run: ({ store, session }) => {
      if (store.state.watching !== undefined) session.stopWatchingFolder();
      else store.dispatch({ type: 'overlay', overlay: { kind: 'watch-folder', text: '' } });
    },
  },
  {
    id: 'sort-history',
    keys: ['s'],
    group: 'jobs',
    help: 'In history and leaderboard: order of the rows',
    hint: 'sort',
    when: inHistory,
    run: ({ store }) =>
      store.dispatch({ type: 'history-order', sort: next(HISTORY_SORTS, store.state.ui.historySort) }),
  },
  {
    id: 'filter-list',
    keys: ['/'],
    group: 'jobs',
    help: 'In 6 and 7: only rows with these words',
    hint: 'filter',
    when: (state) => filteredList(state) !== undefined,
    run: ({ store }) => {
      const list = filteredList(store.state);
      if (list === undefined) return;
      const text = store.state.ui.filters[list];
      store.dispatch({ type: 'overlay', overlay: { kind: 'list-filter', list, text } });
    },
  },
  {
    id: 'clear-filter',
    keys: ['escape'],
    group: 'jobs',
    help: 'There: all rows again',
    hint: 'show all',
    when: (state) => filterOf(state) !== '',
    run: ({ store }) => {
      const list = filteredList(store.state);
      if (list !== undefined) store.dispatch({ type: 'list-filter', list, text: '' });
    },
  },
  {
    id: 'history',
    keys: ['t'],
    group: 'jobs',
    help: 'In 6 Jobs: jobs, history, leaderboard',
    hint: ({ ui }) => next(JOB_LISTS, ui.jobList),
    when: inJobs,
    run: ({ store, session }) => {
      const list = next(JOB_LISTS, store.state.ui.jobList);
      store.dispatch({ type: 'job-list', list });
      if (list === 'history') void session.refreshExperiments();
      if (list === 'leaderboard') void session.refreshLeaderboard();
    },
  },
  {
    id: 'faulty',
    keys: ['F'],
    group: 'jobs',
    help: 'In 7 Kernels: also those faulty on purpose',
    hint: 'faulty',
    when: inKernels,
    run: ({ store, session }) => {
      store.dispatch({ type: 'toggle', what: 'faulty' });
      void session.refreshKernels();
    },
  },
];

/** The job marked in view 6, elsewhere the one shown; it must have ended to be compared. */
function chosenJob(state: AppState): string | undefined {
  const name = inJobs(state) ? selectedJobName(state) : state.attached;
  if (inJobs(state) && state.ui.jobList === 'leaderboard') return name;
  const ended =
    state.views[name ?? '']?.state === JobState.ENDED ||
    [...state.jobs, ...state.experiments.flatMap(({ job }) => job ?? [])].some(
      (job) => job.name === name && job.state === JobState.ENDED,
    );
  return ended ? name : undefined;
}

function titleOf(state: AppState, name: string): string {
  const job =
    state.views[name] ??
    state.jobs.find((known) => known.name === name) ??
    state.experiments.find((known) => known.job?.name === name)?.job;
  return job === undefined ? name : jobTitle(job);
}

/** The job that x is about, while it has not ended. */
function cancellable(state: AppState): { name: string; title: string } | undefined {
  const name = inJobs(state) && state.ui.jobList === 'jobs' ? selectedJobName(state) : state.attached;
  // Events know of a job's end before the next look at the list.
  const job =
    name === undefined
      ? undefined
      : [state.views[name], state.jobs.find((candidate) => candidate.name === name)].find(
          (known) => known !== undefined && known.state !== JobState.UNSPECIFIED,
        );
  if (name === undefined || job === undefined || job.state === JobState.ENDED) return undefined;
  return { name, title: jobTitle(job) };
}

/**
 * What r and R are about: the kernel under the cursor of view 7, else the last form's, else the one of the job shown.
 * One from a client's folder can't be run by its id.
 */
function kernelToRun(state: AppState): string | undefined {
  if (inKernels(state))
    return selectedKernel(state)?.manifestError === '' ? selectedKernel(state)?.kernelId : undefined;
  const kernelId = state.ui.lastForm?.form.kernel.kernelId ?? attachedJob(state)?.kernelId;
  return state.kernels.some((kernel) => kernel.kernelId === kernelId) ? kernelId : undefined;
}
