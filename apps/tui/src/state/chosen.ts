/** Selects the job or kernel that a command applies to: the one under the cursor, or else the one on the screen. */
import { JobState, type Job, type TunedVariant } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import type { AppState } from './app-state.ts';
import type { JobView } from './job-view.ts';
import { kernelKey, type ListedKernel } from './listed-kernel.ts';
import { attachedJob, jobsOf, raceOfAttached, selectedJobName, selectedKernel } from './selectors.ts';

export const inJobs = ({ ui }: AppState): boolean => ui.view === 'jobs';
/** Whether view 7 lists kernels. */
export const inKernels = ({ ui }: AppState): boolean => ui.view === 'kernels' && ui.kernelList === 'kernels';

/**
 * The job to compare: the one under the cursor in view 6, or else the one on the screen. Undefined if that job has not
 * ended.
 */
export function chosenJob(state: AppState): string | undefined {
  const marked = inJobs(state) ? selectedJobName(state) : undefined;
  if (marked !== undefined && state.ui.jobList === 'leaderboard') return marked;
  const name = marked ?? state.attached;
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

/** The kernel under the cursor of view 7, or else the kernel of the shown job. */
export const kernelShown = (state: AppState): string | undefined =>
  inKernels(state) ? selectedKernel(state)?.kernelId : attachedJob(state)?.kernelId;

/**
 * The folder of the kernel under the cursor of view 7, or of the shown job's kernel; undefined if the kernel is the
 * runner's own.
 */
export function folderShown(state: AppState): string | undefined {
  if (inKernels(state)) return selectedKernel(state)?.folder;
  return state.kernels.find(({ kernelId }) => kernelId === attachedJob(state)?.kernelId)?.folder;
}

/**
 * The kernel that the keys r and R run: the one under the cursor of view 7, or else the kernel of a job opened from a
 * list, or else the last form's, or else the shown job's. If a folder and a kernel of the runner have the same id, the
 * last form's is chosen, or else the runner's.
 */
export function kernelToRun(state: AppState): ListedKernel | undefined {
  if (inKernels(state)) return usable(selectedKernel(state));
  const last = state.ui.lastForm?.form.kernel;
  const known = state.kernels.find((kernel) => last !== undefined && kernelKey(kernel) === kernelKey(last));
  const kernelId = attachedJob(state)?.kernelId;
  const isOpened = state.attached !== undefined && state.attached === state.ui.openedJob;
  if (known !== undefined && (!isOpened || known.kernelId === kernelId)) return usable(known);
  const named = state.kernels.filter((kernel) => kernel.kernelId === kernelId);
  return usable(named.find(({ folder }) => folder === undefined) ?? named[0]);
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
