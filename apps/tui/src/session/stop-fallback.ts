import { JobState, type Job } from '@flashcore/shared/contract';
import { reduceJob, withoutEventsBefore } from '../state/job-reducer.ts';
import { jobViewOf, type JobView } from '../state/job-view.ts';
import { idleFallback } from '../state/selectors.ts';
import type { RunnerPort } from './runner-port.ts';

type Client = Pick<RunnerPort, 'getHost' | 'listJobs' | 'watch' | 'cancelJob'>;

/**
 * Cancels the caller's running jobs of a kernel whose verdict stands and whose fallback still runs, so that the next
 * job gets the device at once. Returns these jobs. For programs that do not follow the runner's jobs; a session knows
 * them already. Errors: RUNNER_UNREACHABLE.
 */
export async function stopFallbacksOf(kernelId: string, client: Client): Promise<Job[]> {
  const [{ caller }, { jobs }] = await Promise.all([
    client.getHost({}),
    client.listJobs({ state: JobState.RUNNING, pageSize: 200 }),
  ]);
  const stopped: Job[] = [];
  for (const job of jobs) {
    const isOwn = job.owner === undefined || job.owner === caller?.name;
    if (job.kernelId !== kernelId || job.state !== JobState.RUNNING || !isOwn) continue;
    if (idleFallback(await viewOf(job, client)) === undefined) continue;
    await client.cancelJob({ name: job.name });
    stopped.push(job);
  }
  return stopped;
}

/** The job up to the event that is its last one now. */
async function viewOf(job: Job, client: Client): Promise<JobView> {
  let view = jobViewOf(job);
  const onExpired = (first: bigint): void => void (view = withoutEventsBefore(view, Number(first)));
  for await (const event of client.watch(job.name, { onExpired })) {
    view = reduceJob(view, event);
    if (event.sequence >= job.lastSequence) break;
  }
  return view;
}
