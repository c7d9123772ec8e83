/** Selects the job or kernel that a command applies to: the one under the cursor, or else the one on the screen. */
import { JobKind, JobState, type Job, type TunedVariant } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import type { AppState } from './app-state.ts';
import type { JobView } from './job-view.ts';
import { kernelKey, type ListedKernel } from './listed-kernel.ts';
import { attachedJob, jobsOf, leaderboardOf, raceOfAttached, selectedJobName, selectedKernel } from './selectors.ts';

/** Whether keys act on the row under the cursor of view 6; if the rail has the cursor, they act on the job shown. */
export const inJobs = ({ ui }: AppState): boolean => ui.view === 'jobs' && !ui.inRail;
/** Whether keys act on the kernel under the cursor of view 7. */
export const inKernels = ({ ui }: AppState): boolean =>
  ui.view === 'kernels' && ui.kernelList === 'kernels' && !ui.inRail;

/** Name of the job that keys act on: in view 6 the one under the cursor, in the other views the one on the screen. */
const nameInHand = (state: AppState): string | undefined => (inJobs(state) ? selectedJobName(state) : state.attached);

/** The job that keys act on, as far as lists and events tell of it. */
export function jobInHand(state: AppState): JobInHand | undefined {
  const name = nameInHand(state);
  const known =
    state.jobs.find((job) => job.name === name) ??
    state.experiments.find(({ job }) => job?.name === name)?.job ??
    entryOf(state.views, name ?? '');
  if (known !== undefined || !inJobs(state) || state.ui.jobList !== 'leaderboard') return known;
  const entry = leaderboardOf(state).find(({ job }) => job === name);
  return entry && { name: entry.job, kind: JobKind.EXPERIMENT, kernelId: entry.kernelId, label: entry.label };
}

export type JobInHand = Pick<Job, 'name' | 'kind' | 'kernelId' | 'label'> & Partial<Pick<Job, 'codeDigest'>>;

/** The job that keys act on, for what needs an ended job; undefined if that job has not ended. */
export function chosenJob(state: AppState): string | undefined {
  const name = nameInHand(state);
  if (inJobs(state) && state.ui.jobList === 'leaderboard') return name;
  const ended =
    entryOf(state.views, name ?? '')?.state === JobState.ENDED ||
    [...state.jobs, ...state.experiments.flatMap(({ job }) => job ?? [])].some(
      (job) => job.name === name && job.state === JobState.ENDED,
    );
  return ended ? name : undefined;
}

/** The job that x cancels; undefined if it has ended. */
export function cancellableJob(state: AppState): Job | JobView | undefined {
  const name = inJobs(state) && state.ui.jobList === 'jobs' ? selectedJobName(state) : state.attached;
  if (name === undefined) return undefined;
  // Events report a job's end before the list is read again.
  const job = [entryOf(state.views, name), state.jobs.find((candidate) => candidate.name === name)].find(
    (known) => known !== undefined && known.state !== JobState.UNSPECIFIED,
  );
  return job?.state === JobState.ENDED ? undefined : job;
}

export const inJobList = (state: AppState): boolean => inJobs(state) && state.ui.jobList === 'jobs';

/**
 * The marked jobs that have not ended. Empty outside of the list of jobs, because there the key x refers to the shown
 * job.
 */
export function markedJobs(state: AppState): Job[] {
  if (!inJobList(state) || state.ui.marked.length === 0) return [];
  return state.jobs.filter(({ name, state: of }) => of !== JobState.ENDED && state.ui.marked.includes(name));
}

/** The listed jobs that can be marked; empty outside of the list of jobs. */
export const markableJobs = (state: AppState): Job[] =>
  inJobList(state) ? jobsOf(state).filter(({ state: of }) => of !== JobState.ENDED) : [];

/**
 * The user's own jobs that wait for a device. A job without an owner comes from a runner that did not record owners
 * yet.
 */
export const waitingJobs = ({ jobs, caller }: AppState): Job[] =>
  jobs.filter(({ state, owner }) => state === JobState.QUEUED && (owner === undefined || owner === caller?.name));

/** The kernel under the cursor of view 7, or else the kernel of the job that keys act on. */
export const kernelShown = (state: AppState): string | undefined =>
  inKernels(state) ? selectedKernel(state)?.kernelId : jobInHand(state)?.kernelId;

/**
 * The kernel whose NOTES.md the key o opens: the one under the cursor of view 7, or else the kernel of a result that
 * lacked only notes when it ran. Undefined if there is neither.
 */
export function kernelWithNotes(state: AppState): ListedKernel | undefined {
  if (inKernels(state)) return selectedKernel(state);
  const job = jobInHand(state);
  const result = entryOf(state.views, job?.name ?? '')?.result;
  return job !== undefined && result?.acceptability?.notesWanted ? kernelOf(state, job) : undefined;
}

/** The folder of `kernelShown`; undefined if the kernel is the runner's own. */
export function folderShown(state: AppState): string | undefined {
  if (inKernels(state)) return selectedKernel(state)?.folder;
  const kernelId = jobInHand(state)?.kernelId;
  return state.kernels.find((kernel) => kernel.kernelId === kernelId)?.folder;
}

/**
 * The job that r repeats: in view 6 the one under the cursor, elsewhere one that the user opened from a list. Undefined
 * if r repeats the last form, or the kernel under the cursor of view 7.
 */
export function jobToRepeat(state: AppState): JobInHand | undefined {
  if (inJobs(state)) return jobInHand(state);
  const isOpened = state.attached !== undefined && state.attached === state.ui.openedJob;
  return isOpened && !inKernels(state) ? attachedJob(state) : undefined;
}

/**
 * The kernel that the keys r and R run: the one under the cursor of view 7, or else the kernel of the job that r
 * repeats, or else the last form's, or else the shown job's.
 */
export function kernelToRun(state: AppState): ListedKernel | undefined {
  if (inKernels(state)) return usable(selectedKernel(state));
  const repeated = jobToRepeat(state);
  if (repeated !== undefined || inJobs(state)) return repeated && usable(kernelOf(state, repeated));
  const last = state.ui.lastForm?.form.kernel;
  const known = last && listed(state, last);
  if (known !== undefined) return usable(known);
  const job = attachedJob(state);
  return job && usable(kernelOf(state, job));
}

const listed = ({ kernels }: AppState, kernel: ListedKernel): ListedKernel | undefined =>
  kernels.find((known) => kernelKey(known) === kernelKey(kernel));

/**
 * The listed kernel of a job. If folders and the runner have kernels of the same id, the one whose form started the
 * job, or else the one with the job's sources, or else the runner's.
 */
function kernelOf(state: AppState, { name, kernelId, codeDigest = '' }: JobInHand): ListedKernel | undefined {
  const started = entryOf(state.ui.forms, name)?.form.kernel;
  const known = started && listed(state, started);
  if (known !== undefined) return known;
  const named = state.kernels.filter((kernel) => kernel.kernelId === kernelId);
  return (
    named.find((kernel) => codeDigest !== '' && kernel.codeDigest === codeDigest) ??
    named.find(({ folder }) => folder === undefined) ??
    named[0]
  );
}

/** False for a kernel under the cursor of view 7 that has no job yet, so that there is nothing to repeat. */
export function hasRun(state: AppState): boolean {
  const kernel = inKernels(state) ? selectedKernel(state) : undefined;
  if (kernel === undefined) return true;
  const { lastForm } = state.ui;
  return (
    (lastForm !== undefined && kernelKey(lastForm.form.kernel) === kernelKey(kernel)) ||
    [...state.jobs, ...state.experiments.flatMap(({ job }) => job ?? [])].some(
      ({ kernelId }) => kernelId === kernel.kernelId,
    )
  );
}

/** The variant under the cursor of view 3, and its kernel; undefined if no search is shown, or 7 lacks its kernel. */
export function selectedVariant(state: AppState): { kernel: ListedKernel; variant: TunedVariant } | undefined {
  const race = state.ui.view === 'latency' && !state.ui.comparing ? raceOfAttached(state) : undefined;
  const variant = race?.rows[Math.min(state.ui.selected.latency, race.rows.length - 1)];
  const kernel = kernelToRun(state);
  return variant === undefined || kernel === undefined || kernel.kernelId !== attachedJob(state)?.kernelId
    ? undefined
    : { kernel, variant };
}

const usable = (kernel: ListedKernel | undefined): ListedKernel | undefined =>
  kernel?.manifestError === undefined ? kernel : undefined;

/** "★ " for the jobs of current champions, as in the leaderboard; empty for other jobs. */
export const championMark = ({ champions }: Pick<AppState, 'champions'>, name: string | undefined): string =>
  champions.some(({ job }) => job === name) ? '★ ' : '';

/**
 * True if no known source of the job's kernel, in a folder or on the runner, is what the job ran. A search's candidates
 * are other sources from the start.
 */
export const isSourceChanged = (
  { kernels }: Pick<AppState, 'kernels'>,
  { kernelId, codeDigest, labels }: Pick<Job, 'kernelId' | 'codeDigest' | 'labels'>,
): boolean => {
  const known = kernels.filter((kernel) => kernel.kernelId === kernelId && kernel.codeDigest !== '');
  if (codeDigest === '' || known.length === 0 || entryOf(labels, 'search') !== undefined) return false;
  return known.every((kernel) => kernel.codeDigest !== codeDigest);
};

export const SOURCE_CHANGED = 'source changed since';

/** "Δ " for a job whose source has changed since it ran; otherwise empty. */
export const sourceMark = (state: Pick<AppState, 'kernels'>, job: Job): string =>
  isSourceChanged(state, job) ? 'Δ ' : '';

/** The legend of `sourceMark`; empty if no job of the list has it. */
export const sourceLegend = (state: Pick<AppState, 'kernels'>, jobs: readonly (Job | undefined)[]): string =>
  jobs.some((job) => job !== undefined && isSourceChanged(state, job)) ? `, Δ ${SOURCE_CHANGED}` : '';

/** The legend of `championMark`; empty if no job of the list has it. */
export const championLegend = (state: Pick<AppState, 'champions'>, names: readonly (string | undefined)[]): string =>
  names.some((name) => championMark(state, name) !== '') ? ', ★ champion' : '';
