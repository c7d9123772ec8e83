import type { Shape } from '@flashcore/shared/contract';
import { formatShape, isPlainAttention, problemCase, tensorElements, valuesOf } from '@flashcore/shared/kernels';
import type { SeededInput } from '../../worker/messages/launchable.ts';
import { MAX_COMPARED_ELEMENTS, SdpaParity } from '../sdpa/sdpa-parity.ts';
import type { VariantServices } from './job-services.ts';

/** Compares a case's outputs with PyTorch's SDPA; or the reason why it can't. */
export function openParity(
  { job, runtime, spec, resolved }: VariantServices,
  shape: Shape,
): SdpaParity | { missing: string } {
  const { sdpa, sdpaMissing, dataDirectory } = runtime.instruments;
  if (!sdpa) return { missing: sdpaMissing };
  const { problem } = spec.kernel.manifest;
  const compared = problemCase(problem, valuesOf(shape), resolved.dtype);
  if (!isPlainAttention(compared)) return { missing: `SDPA is not called for ${formatShape(shape)} of ${problem.id}` };
  const elements = tensorElements(problem, shape);
  if (elements > MAX_COMPARED_ELEMENTS)
    return {
      missing: `tensors of ${elements} elements; up to ${MAX_COMPARED_ELEMENTS} are compared with SDPA`,
    };
  return new SdpaParity(sdpa, { shape, signal: job.signal, dataDirectory });
}

/**
 * Number of inputs compared with SDPA. An experiment compares only each case's first input, N(0, 1), because a user
 * waits for it at every save of a source. A verification compares all.
 */
export function comparedInputs({ spec }: VariantServices, inputs: readonly SeededInput[]): number {
  return spec.method === 'verify' ? inputs.length : 1;
}
