import { listedJobs, type RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError, JobState, Outcome } from '@flashcore/shared/contract';
import { UsageError } from '../exit-code.ts';
import { shortName } from '../present/words.ts';

const PAGE_SIZE = 1000;
const UUID_LENGTH = 36;

/**
 * The full name of the only job whose UUID begins with `text`, with or without "jobs/" before it. Errors:
 * JOB_NOT_FOUND, UsageError if several jobs match or if the text has other characters, as a kernel's id has.
 */
export async function resolveJobName(client: RunnerClient, text: string): Promise<string> {
  const prefix = text.replace(/^jobs\//, '').toLowerCase();
  if (!/^[0-9a-f-]+$/.test(prefix)) throw new UsageError(`${text}: ${await noJobText(client, text)}`);
  if (prefix.length >= UUID_LENGTH) return `jobs/${prefix}`;
  const matches: string[] = [];
  for await (const { name } of listedJobs(client, { pageSize: PAGE_SIZE }))
    if (name.startsWith(`jobs/${prefix}`)) matches.push(name);
  if (matches.length > 1)
    throw new UsageError(
      `${text}: ${matches.length} jobs begin with it; give more digits of one: ${matches
        .slice(0, 4)
        .map((name) => name.slice(0, 'jobs/'.length + prefix.length + 4))
        .join(', ')}`,
    );
  return matches[0] ?? notFound(text);
}

/** The accepted names, and the job that was probably meant if the text is a kernel. */
async function noJobText(client: RunnerClient, text: string): Promise<string> {
  const wanted = "must be a job's name or its first digits";
  const { jobs } = /^\w+$/.test(text) ? await client.listJobs({ kernelId: text, pageSize: 1 }) : { jobs: [] };
  return jobs[0] === undefined ? wanted : `${wanted}, got a kernel: its newest job is ${shortName(jobs[0].name)}`;
}

/** Ends of a job that say nothing about its kernel. */
const NOT_FINISHED: readonly Outcome[] = [Outcome.UNSPECIFIED, Outcome.CANCELLED, Outcome.ERROR, Outcome.INTERRUPTED];

/**
 * The job that `text` names, as resolveJobName(), or else the last finished job of the kernel with this id. Errors:
 * JOB_NOT_FOUND, UsageError.
 */
export async function resolveFinishedJob(client: RunnerClient, text: string): Promise<string> {
  for await (const { name, outcome } of listedJobs(client, { kernelId: text, pageSize: PAGE_SIZE }))
    if (!NOT_FINISHED.includes(outcome)) return name;
  if (/^(jobs\/)?[0-9a-f-]+$/i.test(text)) return resolveJobName(client, text);
  throw new UsageError(
    `${text}: must be a job's name or its first digits, or a kernel with a finished job; fa-tui jobs lists both`,
  );
}

function notFound(text: string): never {
  throw new FlashcoreError('JOB_NOT_FOUND', { job: text }, `No job's name begins with ${text}; fa-tui jobs lists them`);
}

/** The newest running job, or else the newest job. Errors: JOB_NOT_FOUND if the runner has no job. */
export async function currentJob(client: RunnerClient): Promise<string> {
  for (const request of [{ state: JobState.RUNNING }, {}]) {
    const { jobs } = await client.listJobs({ ...request, pageSize: 1 });
    if (jobs[0] !== undefined) return jobs[0].name;
  }
  throw new FlashcoreError('JOB_NOT_FOUND', {}, 'The runner has no job yet; fa-tui run starts one');
}
