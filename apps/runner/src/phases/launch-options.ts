import { type Device } from '@flashcore/shared/contract';
import { planLaunches, type LaunchPlan } from '@flashcore/shared/kernels';
import { emitWarning, type VariantServices } from '../phases/job-services.ts';

/**
 * Says which launch options of the manifest the job's device does not have; without them its launches are the same
 * CTAs.
 */
export function warnOptionsWithoutEffect({ job, spec, resolved }: VariantServices): void {
  const [shape] = spec.shapes;
  if (spec.method === 'build' || !shape) return;
  for (const warning of optionsWithoutEffect(planLaunches(spec.kernel.manifest, resolved, shape), spec.device))
    emitWarning(job, warning);
}

export function optionsWithoutEffect(
  { launches }: LaunchPlan,
  { deviceId, persistingL2Bytes, clusters }: Pick<Device, 'deviceId' | 'persistingL2Bytes' | 'clusters'>,
): string[] {
  return launches.flatMap(({ entry, cluster, l2Persist }) => [
    ...(cluster && !clusters && cluster.some((extent) => extent > 1)
      ? [`${entry}: cluster [${cluster.join(', ')}] has no effect: ${deviceId} has no clusters`]
      : []),
    ...(l2Persist.length > 0 && persistingL2Bytes === 0n
      ? [`${entry}: l2_persist [${l2Persist.join(', ')}] has no effect: ${deviceId} has no L2 that can be set aside`]
      : []),
  ]);
}
