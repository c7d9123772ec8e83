import { type Shape } from '@flashcore/shared/contract';
import { planLaunches } from '@flashcore/shared/kernels';
import type { Candidate } from '../../worker/messages.ts';
import { launchLimitMs } from '../spec/launch-limit.ts';
import type { VariantServices } from './job-services.ts';

interface CandidateOptions {
  image: string;
  shape: Shape;
  instrumented?: boolean;
}

/** What the worker is to load and launch for a shape. */
export function candidateFor({ spec, resolved }: VariantServices, options: CandidateOptions): Candidate {
  const { image, shape, instrumented = false } = options;
  return {
    image,
    shape,
    plan: planLaunches(spec.kernel.manifest, resolved, shape),
    launchLimitMs: launchLimitMs(shape, { simulated: spec.device.simulated, instrumented }),
  };
}
