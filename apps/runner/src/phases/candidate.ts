import { type Shape } from '@flashcore/shared/contract';
import { planLaunches, type LaunchPlan } from '@flashcore/shared/kernels';
import type { Candidate } from '../../worker/messages.ts';
import { fileWith, type DeviceImage } from '../build/device-image.ts';
import { launchLimitMs } from '../spec/launch-limit.ts';
import type { VariantServices } from './job-services.ts';

interface CandidateOptions {
  image: DeviceImage;
  shape: Shape;
  instrumented?: boolean;
}

/** What the worker is to load and launch for a shape. */
export function candidateFor({ spec, resolved }: VariantServices, options: CandidateOptions): Candidate {
  const { image, shape, instrumented = false } = options;
  const plan = planLaunches(spec.kernel.manifest, resolved, shape);
  return {
    image: imageOf(image, plan),
    shape,
    plan,
    launchLimitMs: launchLimitMs(shape, { simulated: spec.device.simulated, instrumented }),
  };
}

/** The file that has what a plan launches. */
export const imageOf = (image: DeviceImage, { launches }: LaunchPlan): string =>
  fileWith(
    image,
    launches.map(({ entry }) => entry),
  );
