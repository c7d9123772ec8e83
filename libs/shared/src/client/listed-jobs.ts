import type { Job } from '../generated/flashcore/runner/v1/job_pb.js';
import type { RunnerClient } from './client.ts';
import type { RpcRequestInit } from './grpc.ts';

/**
 * Jobs that fit, newest first, asked for a page at a time. A page without a job, or one that names itself as the next,
 * is the last, whatever a runner says. Errors: as ListJobs'.
 */
export async function* listedJobs(
  client: Pick<RunnerClient, 'listJobs'>,
  request: Omit<RpcRequestInit<'listJobs'>, '$typeName' | 'pageToken'>,
): AsyncGenerator<Job, void, undefined> {
  for (let pageToken = ''; ;) {
    const { jobs, nextPageToken } = await client.listJobs({ ...request, pageToken });
    yield* jobs;
    if (jobs.length === 0 || nextPageToken === '' || nextPageToken === pageToken) return;
    pageToken = nextPageToken;
  }
}
