import { create } from '@bufbuild/protobuf';
import {
  JobState,
  ListJobsResponseSchema,
  type ListJobsRequest,
  type ListJobsResponse,
} from '@flashcore/shared/contract';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { checkLabels, labelFilter } from './validate/asked-labels.ts';
import { checkKernelId } from './validate/names.ts';
import { checkPage, nextPageToken } from './validate/paging.ts';
import { Violations } from './validate/violations.ts';

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
      nextPageToken: nextPageToken(
        found.map(({ id }) => id),
        page.size,
        filter,
      ),
    });
  };
