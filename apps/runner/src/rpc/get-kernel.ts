import { create } from '@bufbuild/protobuf';
import { GetKernelResponseSchema, type GetKernelRequest, type GetKernelResponse } from '@flashcore/shared/contract';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { checkName } from './validate/names.ts';
import { Violations } from './validate/violations.ts';

/** Gives one kernel with its files. */
export const getKernel =
  ({ kernels }: Services): UnaryHandler<GetKernelRequest, GetKernelResponse> =>
  ({ kernelId }) => {
    const violations = new Violations();
    checkName('kernel_id', kernelId, violations);
    violations.throwIfAny();
    return create(GetKernelResponseSchema, { kernel: kernels.get(kernelId) });
  };
