/** RPCs about jobs that have been started. */
import { create } from '@bufbuild/protobuf';
import {
  GetJobResponseSchema,
  type GetJobRequest,
  type GetJobResponse,
  type WatchJobRequest,
  JobState,
  ListJobsResponseSchema,
  type ListJobsRequest,
  type ListJobsResponse,
  ListExperimentsResponseSchema,
  type ListExperimentsRequest,
  type ListExperimentsResponse,
  CancelJobResponseSchema,
  type CancelJobRequest,
  type CancelJobResponse,
} from '@flashcore/shared/contract';
import { LOCAL } from '../access/caller.ts';
import { requirePermission } from '../access/roles.ts';
import type { UnaryHandler, StreamHandler, Services } from './call.ts';
import { checkJobName, checkKernelId, checkLabels, labelFilter, Violations } from './validate/violations.ts';

/** Returns a job and, once it has ended, its result. */
export const getJob =
  ({ jobs }: Services): UnaryHandler<GetJobRequest, GetJobResponse> =>
  ({ name }) => {
    const violations = new Violations();
    checkJobName('name', name, violations);
    violations.throwIfAny();
    return create(GetJobResponseSchema, jobs.get(name));
  };

/** Streams a job's events after a given one, then new ones, until the job ends. */
export const watchJob = ({ jobs }: Services): StreamHandler<WatchJobRequest, Uint8Array> =>
  async function* watch({ name, afterSequence }, { signal }) {
    const violations = new Violations();
    checkJobName('name', name, violations);
    violations.range('after_sequence', Number(afterSequence), { least: 0, most: Number.MAX_SAFE_INTEGER });
    violations.throwIfAny();
    yield* jobs.watch(name, { afterSequence: Number(afterSequence), signal });
  };

/** Lists jobs, newest first. */
export const listJobs =
  ({ jobs }: Services): UnaryHandler<ListJobsRequest, ListJobsResponse> =>
  (request) => {
    const { state, kernelId, labels } = request;
    const filter = `jobs ${state} ${kernelId} ${labelFilter(labels)}`;
    const violations = new Violations();
    const page = checkPage(request, filter, violations);
    violations.enumValue('state', state, JobState, { optional: true });
    if (kernelId !== '') checkKernelId('kernel_id', kernelId, violations);
    checkLabels('labels', labels, violations);
    violations.throwIfAny();
    const found = jobs.list({ limit: page.size, before: page.before, state, kernelId, labels });
    return create(ListJobsResponseSchema, {
      jobs: found.map(({ job }) => job),
      nextPageToken: page.tokenAfter(found.map(({ id }) => id)),
    });
  };

/**
 * Lists ended experiments, newest first. Errors: KERNEL_NOT_FOUND if the runner has no such kernel and never ran one.
 */
export const listExperiments =
  ({ history, jobs, kernels, decisions }: Services): UnaryHandler<ListExperimentsRequest, ListExperimentsResponse> =>
  (request) => {
    const { kernelId, labels } = request;
    const filter = `experiments ${kernelId} ${labelFilter(labels)}`;
    const violations = new Violations();
    const page = checkPage(request, filter, violations);
    if (kernelId !== '') checkKernelId('kernel_id', kernelId, violations);
    checkLabels('labels', labels, violations);
    violations.throwIfAny();
    const found = history.list({ limit: page.size, before: page.before, kernelId, labels });
    // An uploaded kernel is known only by its runs.
    if (found.length === 0 && kernelId !== '' && history.list({ limit: 1, kernelId }).length === 0)
      kernels.requireKnown(kernelId);
    return create(ListExperimentsResponseSchema, {
      experiments: found.map(({ jobId, summary }) => {
        const decision = decisions.latestOf(jobId);
        return { ...summary, job: jobs.byId(jobId), ...(decision && { decision }) };
      }),
      nextPageToken: page.tokenAfter(found.map(({ jobId }) => jobId)),
    });
  };

/** Cancels a job. Another client's job needs permission. Cancelling a job that has ended does nothing. */
export const cancelJob =
  ({ jobs }: Services): UnaryHandler<CancelJobRequest, CancelJobResponse> =>
  ({ name }, { caller }) => {
    const violations = new Violations();
    checkJobName('name', name, violations);
    violations.throwIfAny();
    const { owner } = jobs.get(name).job;
    if (owner !== caller.name) requirePermission(caller, 'cancel-any', `cancel a job of ${owner || 'nobody known'}`);
    return create(CancelJobResponseSchema, { job: jobs.cancel(name, caller.name === LOCAL ? undefined : caller.name) });
  };

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 1000;

interface Page {
  size: number;
  /** Continue with ids below this one. */
  before: number | undefined;
  /** The next page's token: the last id of this page, bound to the filter. Empty if the page is not full. */
  tokenAfter: (ids: readonly number[]) => string;
}

/** Reads page_size and page_token; `filter` is the rest of the request, which the token is bound to. */
function checkPage(
  { pageSize, pageToken }: { pageSize: number; pageToken: string },
  filter: string,
  violations: Violations,
): Page {
  violations.range('page_size', pageSize, { least: 0, most: MAX_PAGE_SIZE });
  const before = pageToken === '' ? undefined : readToken(pageToken, filter);
  if (pageToken !== '' && before === undefined)
    violations.add('page_token', 'must be the next_page_token of an answer to the same request');
  const size = pageSize || DEFAULT_PAGE_SIZE;
  const tokenAfter = (ids: readonly number[]): string =>
    ids.length < size ? '' : Buffer.from(`${ids.at(-1)} ${filter}`).toString('base64url');
  return { size, before, tokenAfter };
}

function readToken(token: string, filter: string): number | undefined {
  const [, id, bound] = /^(\d{1,15}) (.*)$/s.exec(Buffer.from(token, 'base64url').toString()) ?? [];
  return id !== undefined && bound === filter ? Number(id) : undefined;
}
