import { create } from '@bufbuild/protobuf';
import { VariantSchema, type Variant } from '@flashcore/shared/contract';
import type { ResolvedVariant } from '@flashcore/shared/kernels';

/** A variant in request form, with every parameter. */
export function variantMessage(resolved: ResolvedVariant): Variant {
  const { parameters, arch = '', maxRegisters, fastMath, keepPtx, keepSass } = resolved;
  const values = Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, BigInt(value)]));
  return create(VariantSchema, { parameters: values, arch, maxRegisters, fastMath, keepPtx, keepSass });
}
