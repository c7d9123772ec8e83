import { type Shape } from '@flashcore/shared/contract';
import { planLaunches, type LaunchPlan } from '@flashcore/shared/kernels';
import type { Candidate } from '../../worker/messages.ts';
import { fileWith, type DeviceImage } from '../build/device-image.ts';
import { launchLimitMs } from '../spec/launch-limit.ts';
import type { VariantServices } from './job-services.ts';
import { hasClusters } from './launch-options.ts';

interface CandidateOptions {
  image: DeviceImage;
  shape: Shape;
  instrumented?: boolean;
}

/** What the worker is to load and launch for a shape. */
export function candidateFor(services: VariantServices, options: CandidateOptions): Candidate {
  const { spec, resolved } = services;
  const { image, shape, instrumented = false } = options;
  const plan = withClusters(planLaunches(spec.kernel.manifest, resolved, shape), hasClusters(services));
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

/** A device without clusters runs the same CTAs one by one; the daemon says so. */
const withClusters = (plan: LaunchPlan, has: boolean): LaunchPlan =>
  has ? plan : { ...plan, launches: plan.launches.map(({ cluster: _, ...launch }) => launch) };
