import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import {
  GetKernelResponseSchema,
  KernelReferenceSchema,
  type GetKernelRequest,
  type GetKernelResponse,
} from '@flashcore/shared/contract';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { checkKernelId } from './validate/names.ts';
import { Violations } from './validate/violations.ts';

/** Gives one kernel with its files, whose bytes ReadArtifact then has. */
export const getKernel =
  ({ kernels, artifacts }: Services): UnaryHandler<GetKernelRequest, GetKernelResponse> =>
  ({ kernelId }) => {
    const violations = new Violations();
    checkKernelId('kernel_id', kernelId, violations);
    violations.throwIfAny();
    const { folder, files } = kernels.resolve(
      create(KernelReferenceSchema, { source: { case: 'kernelId', value: kernelId } }),
    );
    for (const { path } of files) artifacts.putFile(join(folder, path));
    return create(GetKernelResponseSchema, { kernel: kernels.get(kernelId) });
  };
