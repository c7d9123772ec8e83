/** Starting, showing and cancelling jobs. */
import { JobState } from '@flashcore/shared';
import type { AppState } from '../state/app-state.ts';
import { attachedJob, selectedJobName, selectedKernel } from '../state/selectors.ts';
import { jobTitle } from '../state/words.ts';
import type { Command } from './command.ts';

const inJobs = ({ ui }: AppState): boolean => ui.view === 'jobs';
const inKernels = ({ ui }: AppState): boolean => ui.view === 'kernels';

export const JOB_COMMANDS: Command[] = [
  {
    id: 'show-job', keys: ['enter', 'a'], group: 'jobs', help: 'In 6 Jobs: show the job under the cursor', hint: 'show', when: (state) => inJobs(state) && selectedJobName(state) !== undefined,
    run: ({ store, session }) => {
      const job = selectedJobName(store.state);
      if (job === undefined) return;
      session.attach(job);
      store.dispatch({ type: 'show', view: 'run' });
    },
  },
  {
    id: 'run-kernel', keys: ['enter'], group: 'jobs', help: 'In 7 Kernels: run the experiment with this one', hint: 'run', when: (state) => inKernels(state) && selectedKernel(state)?.manifestError === '',
    run: ({ store, session }) => {
      const kernel = selectedKernel(store.state);
      if (kernel !== undefined) session.runKernel(kernel.kernelId);
    },
  },
  {
    id: 'rerun', keys: ['r'], group: 'jobs', help: 'Run the experiment of this kernel again', hint: 'rerun', when: (state) => isRunnersKernel(state) && !inJobs(state) && !inKernels(state),
    run: ({ store, session }) => {
      const job = attachedJob(store.state);
      if (job !== undefined) session.runKernel(job.kernelId);
    },
  },
  {
    id: 'cancel', keys: ['x'], group: 'jobs', help: 'Cancel the job shown, or in 6 the one marked', hint: 'cancel', when: (state) => cancellable(state) !== undefined,
    run: ({ store }) => {
      const job = cancellable(store.state);
      if (job !== undefined) store.dispatch({ type: 'overlay', overlay: { kind: 'confirm', question: `Cancel ${job.title}?`, commandId: 'cancel', subject: job.name } });
    },
  },
  {
    id: 'history', keys: ['t'], group: 'jobs', help: 'In 6 Jobs: ended experiments, or all jobs', hint: 'history', when: inJobs,
    run: ({ store, session }) => {
      store.dispatch({ type: 'toggle', what: 'history' });
      void session.refreshExperiments();
    },
  },
  {
    id: 'faulty', keys: ['F'], group: 'jobs', help: 'In 7 Kernels: also those faulty on purpose', hint: 'faulty', when: inKernels,
    run: ({ store, session }) => {
      store.dispatch({ type: 'toggle', what: 'faulty' });
      void session.refreshKernels();
    },
  },
];

/** The job that x is about, while it has not ended. */
function cancellable(state: AppState): { name: string; title: string } | undefined {
  const name = inJobs(state) && !state.ui.history ? selectedJobName(state) : state.attached;
  // Events know of a job's end before the next look at the list.
  const job = name === undefined ? undefined : [state.views[name], state.jobs.find((candidate) => candidate.name === name)].find((known) => known !== undefined && known.state !== JobState.UNSPECIFIED);
  if (name === undefined || job === undefined || job.state === JobState.ENDED) return undefined;
  return { name, title: jobTitle(job) };
}

/** A kernel from a client's folder can't be run again by its id. */
const isRunnersKernel = (state: AppState): boolean => state.kernels.some(({ kernelId }) => kernelId === attachedJob(state)?.kernelId);
