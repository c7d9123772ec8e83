/** Starting, showing, cancelling and comparing jobs. */
import { JobState, type Job, type LeaderboardPlace } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { counted, entryOf } from '@flashcore/shared/text';
import { next } from '../keymap/command.ts';
import type { JOB_COMMANDS, MARK_COMMANDS } from '../keymap/job-commands.ts';
import { jobTitle, namedJob } from '../present/words.ts';
import { HISTORY_SORTS, JOB_LISTS, type AppState, KERNEL_SORTS, type StartedForm } from '../state/app-state.ts';
import {
  cancellableJob,
  chosenJob,
  folderShown,
  jobToRepeat,
  kernelToRun,
  kernelShown,
  markableJobs,
  markedJobs,
  waitingJobs,
} from '../state/chosen.ts';
import type { JobView } from '../state/job-view.ts';
import type { Store } from '../session/store.ts';
import { kernelKey, type ListedKernel } from '../state/listed-kernel.ts';
import { kernelToCopy, kernelsOfProblem, selectedProblem } from '../state/listed-problems.ts';
import { filteredList, idleFallback, neighborJob, selectedJobName, selectedKernel } from '../state/selectors.ts';
import { logJobCommand } from './command-log-keys.ts';
import { openDecision } from './decision-keys.ts';
import { formOfJob, openForm, openKernelForm, startForm, unreadProblems, usualForm } from './form-keys.ts';
import type { HandlersOf, KeyContext } from './handler.ts';
import { kernelFolder } from '../watch/source-file.ts';
import { editSource } from './source-keys.ts';
import { sortLines } from './view-keys.ts';

export const JOB_HANDLERS: Omit<HandlersOf<typeof JOB_COMMANDS>, 'edit-source'> = {
  'older-job': (context) => openJob(context, neighborJob(context.store.state, 1)),
  'newer-job': (context) => openJob(context, neighborJob(context.store.state, -1)),
  'show-job': (context) => {
    const job = selectedJobName(context.store.state);
    if (job === undefined) return;
    logJobCommand(context.store, 'watch', job);
    openJob(context, job);
    context.store.dispatch({ type: 'show', view: 'run' });
  },
  'fix-manifest': (context) => void editSource(context),
  'run-kernel': (context) => {
    const kernel = selectedKernel(context.store.state);
    if (kernel !== undefined) void openKernelForm(context, kernel);
  },
  'new-kernel': ({ store }) => {
    const from = kernelToCopy(store.state);
    if (from !== undefined) store.dispatch({ type: 'overlay', overlay: { kind: 'new-kernel', text: '', from } });
  },
  'show-problem': ({ store }) => store.dispatch({ type: 'kernel-list', list: 'definition' }),
  'run-problem': (context) => void openProblemForm(context),
  'leave-problem': ({ store }) => store.dispatch({ type: 'kernel-list', list: 'problems' }),
  rerun: (context) => void withFormToRepeat(context, startForm),
  'change-form': (context) => void withFormToRepeat(context, openForm),
  cancel: ({ store }) => {
    const marked = markedJobs(store.state);
    const job = cancellableJob(store.state);
    if (marked.length > 0) askToCancel(store, marked, counted(marked.length, 'marked job'));
    else if (job !== undefined) askToCancel(store, [job]);
  },
  'cancel-waiting': ({ store }) => {
    const waiting = waitingJobs(store.state);
    askToCancel(store, waiting, counted(waiting.length, 'waiting job'));
  },
  pin,
  compare,
  accept: (context) => void openDecision(context, 'accept'),
  reject: (context) => void openDecision(context, 'reject'),
  undo: (context) => void openDecision(context, 'undo'),
  'watch-folder': ({ store, session, kernelsDirectory }) => {
    const { watching } = store.state;
    if (watching !== undefined) {
      session.stopWatchingFolder();
      const { views } = store.state;
      const runs = entryOf(views, watching.job ?? '');
      const goesOn = runs === undefined || runs.state === JobState.ENDED ? '' : `; ${namedJob(runs)} goes on`;
      const hasEnded = (state: AppState): boolean => entryOf(state.views, watching.job ?? '')?.state === JobState.ENDED;
      return store.dispatch({
        type: 'notice',
        text: `Stopped watching ${watching.folder}${goesOn}`,
        tone: 'info',
        until: (state) => state.watching !== undefined || (goesOn !== '' && hasEnded(state)),
      });
    }
    const text = folderShown(store.state) ?? kernelFolder(kernelsDirectory, kernelShown(store.state)) ?? '';
    store.dispatch({ type: 'overlay', overlay: { kind: 'watch-folder', text, names: [], quick: false } });
  },
  'next-place': ({ store, session }) => {
    const place = nextPlace(store.state);
    if (place !== undefined) void session.lists.leaderboard(place);
  },
  'sort-list': ({ store }) => {
    const { view, historySort, kernelSort } = store.state.ui;
    if (view === 'profile') sortLines(store);
    else if (view === 'kernels') store.dispatch({ type: 'kernel-order', sort: next(KERNEL_SORTS, kernelSort) });
    else store.dispatch({ type: 'history-order', sort: next(HISTORY_SORTS, historySort) });
  },
  'filter-list': ({ store, session }) => {
    const list = filteredList(store.state);
    if (list === undefined) return;
    // A definition has no rows to filter: the list that it was opened from has.
    if (store.state.ui.kernelList === 'definition') store.dispatch({ type: 'kernel-list', list: 'problems' });
    const text = store.state.ui.filters[list];
    store.dispatch({ type: 'overlay', overlay: { kind: 'list-filter', list, text, untouched: text !== '' } });
    // A filter that no kernel passes names its matches among the problems.
    if (list === 'kernels' && store.state.problems === undefined) void session.lists.problems();
  },
  'clear-filter': ({ store }) => {
    const list = filteredList(store.state);
    if (list !== undefined) store.dispatch({ type: 'list-filter', list, text: '' });
  },
  history: ({ store, session }) => {
    const list = next(JOB_LISTS, store.state.ui.jobList);
    store.dispatch({ type: 'job-list', list });
    if (list === 'history') void session.lists.experiments();
    if (list === 'leaderboard') void session.lists.leaderboard();
  },
  problems: ({ store, session }) => {
    const list = store.state.ui.kernelList === 'kernels' ? 'problems' : 'kernels';
    store.dispatch({ type: 'kernel-list', list });
    if (list === 'problems') void session.lists.problems();
  },
  faulty: ({ store, session }) => {
    store.dispatch({ type: 'toggle', what: 'faulty' });
    void session.lists.kernels();
  },
};

/** Puts a job on the screen. */
export function openJob({ store, session }: KeyContext, job: string | undefined): void {
  if (job === undefined) return;
  session.attach(job);
  store.dispatch({ type: 'job-opened', job });
}

export const MARK_HANDLERS: HandlersOf<typeof MARK_COMMANDS> = {
  'mark-job': ({ store }) => {
    const job = cancellableJob(store.state);
    if (job === undefined)
      return store.dispatch({
        type: 'notice',
        text: 'This job has ended: Space marks jobs that have not, and x cancels the marked ones',
        tone: 'warn',
        until: (state) => cancellableJob(state) !== undefined,
        about: 'view',
      });
    const { marked } = store.state.ui;
    const isMarked = marked.includes(job.name);
    store.dispatch({
      type: 'mark',
      jobs: isMarked ? marked.filter((name) => name !== job.name) : [...marked, job.name],
    });
    store.dispatch({ type: 'move', by: 1 });
  },
  'mark-all': ({ store }) => {
    const jobs = markableJobs(store.state).map(({ name }) => name);
    store.dispatch({ type: 'mark', jobs: [...new Set([...store.state.ui.marked, ...jobs])] });
  },
  'clear-marks': ({ store }) => store.dispatch({ type: 'mark', jobs: [] }),
};

const MOST_NAMED = 3;

/** Asks one question about all jobs. If there are several, it gives their number and names the first few. */
function askToCancel(store: Store, jobs: readonly (Job | JobView)[], several?: string): void {
  // The parameters would leave no room for the names of several jobs.
  const titles = jobs.map((job) => namedJob(jobs.length === 1 ? job : { ...job, label: job.kernelId }));
  const others = titles.length > MOST_NAMED ? ` and ${counted(titles.length - MOST_NAMED, 'other')}` : '';
  const names = `${titles.slice(0, MOST_NAMED).join(', ')}${others}`;
  const [first] = jobs.map(({ name }) => entryOf(store.state.views, name));
  const isDecided = jobs.length === 1 && first !== undefined && idleFallback(first) !== undefined;
  const question = isDecided
    ? `Stop the fallback of ${names}? The verdict stays.`
    : `Cancel ${several === undefined ? '' : `${several}: `}${names}?`;
  const subjects = jobs.map(({ name }) => name);
  store.dispatch({ type: 'overlay', overlay: { kind: 'confirm', question, commandId: 'cancel', subjects } });
}

/** Starts or opens the form that r repeats. */
async function withFormToRepeat(context: KeyContext, take: typeof startForm): Promise<void> {
  const { state } = context.store;
  const kernel = kernelToRun(state);
  if (kernel === undefined) return;
  const reading = unreadProblems(context, kernel);
  if (reading !== undefined) await reading;
  const repeated = jobToRepeat(state);
  const { form, defaults } =
    repeated === undefined
      ? (lastFormOf(state, kernel) ?? usualForm(context, kernel))
      : formOfJob(context, repeated, kernel);
  take(context, form, defaults);
}

/** The last form, if it is the kernel's. */
function lastFormOf({ ui: { lastForm } }: AppState, kernel: ListedKernel): StartedForm | undefined {
  return lastForm !== undefined && kernelKey(kernel) === kernelKey(lastForm.form.kernel) ? lastForm : undefined;
}

/** Opens the run form for the problem under the cursor, at the first of its kernels; the field has the others. */
async function openProblemForm(context: KeyContext): Promise<void> {
  const { store, session } = context;
  const listed = selectedProblem(store.state);
  if (listed === undefined) return;
  const read = kernelsOfProblem(store.state, listed).map(async ({ id, folder }) => {
    const known = store.state.kernels.find((kernel) => kernel.kernelId === id && kernel.folder === folder);
    return known ?? (folder === undefined ? undefined : session.readKernel(folder));
  });
  const kernels = (await Promise.all(read)).filter((kernel) => kernel !== undefined);
  const usable = kernels.filter(({ manifestError }) => manifestError === undefined);
  const text = kernels[0]?.manifestError;
  if (usable[0] !== undefined) await openKernelForm(context, usable[0], { among: usable });
  else if (text !== undefined) store.dispatch({ type: 'notice', text, tone: 'warn' });
}

function pin({ store, session }: KeyContext): void {
  const job = chosenJob(store.state);
  if (job === undefined) return;
  if (job === store.state.ui.pinned) {
    store.dispatch({ type: 'pin', job: undefined });
    return store.dispatch({
      type: 'notice',
      text: `No longer pinned: ${titleOf(store.state, job)}`,
      tone: 'info',
      until: ({ ui }) => ui.pinned === job,
    });
  }
  store.dispatch({ type: 'pin', job });
  // Reads the pinned job, because view 4 compares the lines of the shown job with those of the pinned one.
  void session.read(job);
  store.dispatch({
    type: 'notice',
    text: `Pinned: ${titleOf(store.state, job)}. c on another job compares the two`,
    tone: 'info',
    about: 'view',
    until: ({ ui }) => ui.pinned !== job || ui.comparing,
  });
}

function compare({ store, session }: KeyContext): void {
  const job = chosenJob(store.state);
  const { pinned, comparing, view } = store.state.ui;
  if (comparing && view === 'latency') store.dispatch({ type: 'compare', on: false });
  else if (job === pinned)
    store.dispatch({
      type: 'notice',
      text: 'This is the pinned job itself: choose another one in 6, then press c',
      tone: 'warn',
      about: 'view',
      until: (state) => chosenJob(state) !== state.ui.pinned,
    });
  else if (job !== undefined && pinned !== undefined) void session.compare(job, pinned);
}

function titleOf(state: AppState, name: string): string {
  const job =
    entryOf(state.views, name) ??
    state.jobs.find((known) => known.name === name) ??
    state.experiments.find((known) => known.job?.name === name)?.job;
  return job === undefined ? name : jobTitle(job);
}

const keyOf = ({ deviceName, problem, shape, caseSet, dtype, mode, protocol }: LeaderboardPlace): string =>
  JSON.stringify([deviceName, problem, shape ? formatShape(shape) : caseSet, dtype, mode, protocol]);

/** The place after the shown one, wrapping around at the end. If the shown place has no results, the first place. */
function nextPlace({ leaderboard }: Pick<AppState, 'leaderboard'>): LeaderboardPlace | undefined {
  const { places = [], place } = leaderboard ?? {};
  const shown = place === undefined ? -1 : places.findIndex((each) => keyOf(each) === keyOf(place));
  return places[(shown + 1) % Math.max(1, places.length)];
}
