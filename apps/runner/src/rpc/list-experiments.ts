import { create } from '@bufbuild/protobuf';
import {
  ListExperimentsResponseSchema,
  type ListExperimentsRequest,
  type ListExperimentsResponse,
} from '@flashcore/shared/contract';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { checkLabels, labelFilter } from './validate/asked-labels.ts';
import { checkKernelId } from './validate/names.ts';
import { checkPage, nextPageToken } from './validate/paging.ts';
import { Violations } from './validate/violations.ts';

/** Lists ended experiments, newest first. Errors: KERNEL_NOT_FOUND if the runner neither has the kernel nor ever ran it. */
export const listExperiments =
  ({ history, jobs, kernels }: Services): UnaryHandler<ListExperimentsRequest, ListExperimentsResponse> =>
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
      experiments: found.map(({ jobId, summary }) => ({ ...summary, job: jobs.byId(jobId) })),
      nextPageToken: nextPageToken(
        found.map(({ jobId }) => jobId),
        page.size,
        filter,
      ),
    });
  };
