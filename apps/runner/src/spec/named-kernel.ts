import { toBinary } from '@bufbuild/protobuf';
import { VariantSchema, invalidRequest, type KernelReference, type Variant } from '@flashcore/shared/contract';
import type { ResolvedKernel } from '../kernels.ts';

/** The kernel that a request names. Errors: INVALID_REQUEST if it names none. */
export function kernelOf(reference: KernelReference | undefined): KernelReference {
  if (!reference)
    throw invalidRequest({ field: 'kernel.source', description: 'must be set: a kernel_id, a tree or a build_id' });
  return reference;
}

/** The requested variant, or that of the build_id, which a request can't combine with another variant. */
export function variantOf({ build }: ResolvedKernel, asked: Variant | undefined, field: string): Variant | undefined {
  if (!build) return asked;
  if (asked && toBinary(VariantSchema, asked).byteLength > 0)
    throw invalidRequest({
      field,
      description: 'must be unset when a build_id is given: a build has its sources and its variant',
    });
  return build.variant;
}
