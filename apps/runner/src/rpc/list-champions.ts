import { create } from '@bufbuild/protobuf';
import {
  ListChampionsResponseSchema,
  type ListChampionsRequest,
  type ListChampionsResponse,
} from '@flashcore/shared/contract';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { Violations } from './validate/violations.ts';

const MAX_DECISIONS = 1000;

/** Lists the champions, by device, and on request every decision that was made. */
export const listChampions =
  ({ decisions }: Services): UnaryHandler<ListChampionsRequest, ListChampionsResponse> =>
  ({ deviceName, kernelId, includeDecisions }) => {
    const violations = new Violations();
    violations.text('device_name', deviceName);
    violations.text('kernel_id', kernelId);
    violations.throwIfAny();
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
