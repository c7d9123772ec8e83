import { create } from '@bufbuild/protobuf';
import {
  ListKernelsResponseSchema,
  type ListKernelsRequest,
  type ListKernelsResponse,
} from '@flashcore/shared/contract';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';

/** Lists the runner's kernels in the order of the ladder. */
export const listKernels =
  ({ kernels }: Services): UnaryHandler<ListKernelsRequest, ListKernelsResponse> =>
  ({ includeFaulty }) =>
    create(ListKernelsResponseSchema, { kernels: kernels.list({ includeFaulty }) });
