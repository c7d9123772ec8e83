import { Phase } from '@flashcore/shared/contract';
import { checkShape, planLaunches } from '@flashcore/shared/kernels';
import { differingEntries } from '../build/cubin-code.ts';
import { fileWith } from '../build/device-image.ts';
import { emitFindings, type VariantServices } from './job-services.ts';
import type { VariantPhase } from './phase.ts';
import { verifiedShapes } from './verify-phase.ts';

/**
 * Entries that a job launches on a GPU, those of a launch together, where the kernel has others too: they are compiled
 * first, and the whole beside what is done with them. Undefined: the kernel is compiled whole.
 */
export function launchedEntries(services: VariantServices): string[][] | undefined {
  const { spec, resolved, build } = services;
  if (spec.device.simulated) return undefined;
  const shapes = [
    ...spec.shapes,
    ...(spec.verify ? verifiedShapes(services, spec.verify) : []),
    ...(spec.benchmark?.shapes ?? []),
    ...(spec.profile ? [spec.profile.shape] : []),
    ...(spec.champion?.shapes ?? []),
    ...spec.heldOut,
  ];
  const { manifest } = spec.kernel;
  const launched = shapes
    .filter((shape) => checkShape(manifest, resolved, shape) === undefined)
    .map((shape) => planLaunches(manifest, resolved, shape).launches.map(({ entry }) => entry));
  return new Set(launched.flat()).size < build.entries.length ? launched : undefined;
}

/**
 * Takes the whole kernel in place of its first entries, whose code must be the same: what was measured of them is then
 * the whole's. Where it is not, the variant is measured anew.
 */
export const wholeBuildPhase: VariantPhase = {
  phase: Phase.BUILD,
  wants: (_services, { build }) => build?.rest !== undefined,
  evenStopped: true,
  async run(services, found) {
    const { rest, findings } = found.build!;
    const whole = await rest!.whole;
    const { image } = whole;
    const differing =
      image === undefined
        ? []
        : rest!.parts.flatMap(({ path, entries }) => differingEntries(path, fileWith(image, entries), entries));
    if (differing.length > 0) {
      found.apart = `${differing.join(', ')} of the whole kernel is other code than compiled apart from it: measured anew`;
      return undefined;
    }
    found.build = whole;
    found.result.build = whole.result;
    services.job.emit({ case: 'buildResult', value: whole.result });
    const known = new Set(findings.map(({ message }) => message));
    const others = whole.findings.filter(({ message }) => !known.has(message));
    emitFindings(services, others);
    found.result.findings.push(...others);
    return whole.image === undefined ? 'the kernel was not built' : undefined;
  },
};
