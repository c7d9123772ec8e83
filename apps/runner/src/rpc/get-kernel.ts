import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import {
  GetKernelResponseSchema,
  KernelReferenceSchema,
  type GetKernelRequest,
  type GetKernelResponse,
} from '@flashcore/shared/contract';
import { kernelMessageOf } from '../kernels.ts';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { checkKernelReference } from './validate/kernel.ts';
import { Violations } from './validate/violations.ts';

/**
 * Returns a kernel, or the sources of a build, with the list of files; ReadArtifact then serves their bytes. Errors:
 * KERNEL_NOT_FOUND, BUILD_NOT_FOUND, SOURCES_MISSING if a build's sources were removed.
 */
export const getKernel =
  ({ kernels, artifacts }: Services): UnaryHandler<GetKernelRequest, GetKernelResponse> =>
  ({ kernelId, buildId }) => {
    const reference = create(KernelReferenceSchema, {
      source: buildId === '' ? { case: 'kernelId', value: kernelId } : { case: 'buildId', value: buildId },
    });
    const violations = new Violations();
    if (kernelId !== '' && buildId !== '') violations.add('build_id', 'must be empty where kernel_id is set');
    checkKernelReference(reference, violations, '');
    violations.throwIfAny();
    const kernel = kernels.resolve(reference);
    for (const { path } of kernel.files) artifacts.putFile(join(kernel.folder, path));
    return create(GetKernelResponseSchema, {
      kernel: kernelMessageOf(kernel, { withFiles: true }),
      ...(kernel.build && { variant: kernel.build.variant }),
    });
  };
