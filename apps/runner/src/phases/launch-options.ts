import { type Device } from '@flashcore/shared/contract';
import { planLaunches, type LaunchPlan } from '@flashcore/shared/kernels';
import { emitWarning, type VariantServices } from '../phases/job-services.ts';

/**
 * Warns if a job differs from its request or kernel: default shapes with another head dimension, and launch options
 * that the device lacks, without which the launches run the same CTAs.
 */
export function warnOfPlan(services: VariantServices): void {
  const { job, spec, resolved } = services;
  const { otherHeadDim } = spec.verify ?? spec.benchmark ?? spec.profile ?? {};
  if (otherHeadDim !== undefined)
    emitWarning(
      job,
      `${spec.kernel.kernelId} takes none of the default shapes: they run with head dimension ${otherHeadDim}; --shape chooses others`,
    );
  const [shape] = spec.shapes;
  if (spec.method === 'build' || !shape) return;
  const device = { ...spec.device, clusters: hasClusters(services) };
  for (const warning of optionsWithoutEffect(planLaunches(spec.kernel.manifest, resolved, shape), device))
    emitWarning(job, warning);
}

/** The emulator has clusters with the PTX engine, for code compiled for sm_90 or later. */
export const hasClusters = ({ spec: { device, arch }, tools }: Pick<VariantServices, 'spec' | 'tools'>): boolean =>
  device.simulated ? tools.emulation().engine === 'ptx' && parseInt(arch.slice(3), 10) >= 90 : device.clusters;

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
