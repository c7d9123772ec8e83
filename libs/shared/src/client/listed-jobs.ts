import type { Job } from '../generated/flashcore/runner/v1/job_pb.js';
import type { RunnerClient } from './client.ts';
import type { RpcRequestInit } from './grpc.ts';

/**
 * Lists matching jobs, newest first, one page at a time. A page without jobs, or one that names itself as the next
 * page, is treated as the last. Errors: those of ListJobs.
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
