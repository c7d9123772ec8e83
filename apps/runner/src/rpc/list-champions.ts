import { create } from '@bufbuild/protobuf';
import {
  ListChampionsResponseSchema,
  type ListChampionsRequest,
  type ListChampionsResponse,
} from '@flashcore/shared/contract';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { checkKernelId } from './validate/names.ts';
import { Violations } from './validate/violations.ts';

const MAX_DECISIONS = 1000;

/**
 * Lists the champions by device and, on request, every decision. Errors: KERNEL_NOT_FOUND if the runner neither has the
 * kernel nor ever ran it.
 */
export const listChampions =
  ({ decisions, history, kernels }: Services): UnaryHandler<ListChampionsRequest, ListChampionsResponse> =>
  ({ deviceName, kernelId, includeDecisions }) => {
    const violations = new Violations();
    violations.text('device_name', deviceName);
    if (kernelId !== '') checkKernelId('kernel_id', kernelId, violations);
    violations.throwIfAny();
    // An uploaded kernel is known only by its runs.
    if (kernelId !== '' && history.list({ limit: 1, kernelId }).length === 0) kernels.requireKnown(kernelId);
    const champions = decisions
      .champions()
      .filter(
        (champion) =>
          (deviceName === '' || champion.deviceName === deviceName) &&
          (kernelId === '' || champion.kernelId === kernelId),
      )
      .toSorted((a, b) => a.deviceName.localeCompare(b.deviceName));
    return create(ListChampionsResponseSchema, {
      champions,
      decisions: includeDecisions ? decisions.list({ limit: MAX_DECISIONS }) : [],
    });
  };
