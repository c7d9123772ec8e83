import { type Shape } from '@flashcore/shared/contract';
import { planLaunches, type LaunchPlan } from '@flashcore/shared/kernels';
import type { Candidate, DeviceImage } from '../../worker/messages/launchable.ts';
import { launchLimitMs } from '../spec/launch-limit.ts';
import type { VariantServices } from './job-services.ts';
import { hasClusters } from './launch-options.ts';

interface CandidateOptions {
  image: DeviceImage;
  shape: Shape;
  instrumented?: boolean;
}

/** The module and the launches of a shape, for the worker. */
export function candidateFor(services: VariantServices, options: CandidateOptions): Candidate {
  const { spec, resolved } = services;
  const { image, shape, instrumented = false } = options;
  const plan = withClusters(planLaunches(spec.kernel.manifest, resolved, shape), hasClusters(services));
  return {
    image,
    plan,
    launchLimitMs: launchLimitMs(plan, { simulated: spec.device.simulated, instrumented }),
  };
}

/** A device without clusters runs the same CTAs one by one; a warning of the job says so. */
const withClusters = (plan: LaunchPlan, has: boolean): LaunchPlan =>
  has ? plan : { ...plan, launches: plan.launches.map(({ cluster: _, ...launch }) => launch) };
