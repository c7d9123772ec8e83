import { outputTolerances } from '@flashcore/shared/kernels';
import type { VerifyRequest } from '../../worker/messages/verifying.ts';
import type { VariantServices } from './job-services.ts';

/** Tolerances declared by outputs of the kernel's problem, by output name. */
export const toleranceOfOutputs = ({ spec, cases, resolved }: VariantServices): VerifyRequest['ownTolerances'] =>
  outputTolerances(spec.kernel.manifest.problem, cases, resolved.dtype);
