import { Phase } from '@flashcore/shared/contract';
import { checkShape, planLaunches } from '@flashcore/shared/kernels';
import type { KernelBuild } from '../build/compiled-kernel.ts';
import { keepsStateFinding } from '../build/kept-state.ts';
import { emitFindings, type PlannedVariant, type VariantServices, emitWarning } from './job-services.ts';
import type { VariantPhase } from './phase.ts';
import { verifiedShapes } from './coming-verification.ts';

/**
 * Entries that a job launches on a GPU, if the kernel also has other entries. They are compiled first, and the others
 * while the first ones are verified and timed. Undefined: all entries are compiled together.
 */
export function launchedEntries(services: PlannedVariant): string[] | undefined {
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
    .flatMap((shape) => planLaunches(manifest, resolved, shape).launches.map(({ entry }) => entry));
  const entries = [...new Set(launched)];
  return entries.length < build.entries.length ? entries : undefined;
}

/**
 * Replaces the build of the first entries with the build of all entries, in which the first entries' code is the same.
 */
export const restOfBuildPhase: VariantPhase = {
  phase: Phase.BUILD,
  wants: (_services, { build }) => build?.complete !== undefined,
  evenStopped: true,
  async run(services, found) {
    const { complete, findings } = found.build!;
    const build = await complete!;
    judgeKeptState(services, build);
    found.build = build;
    found.result.build = build.result;
    services.job.emit({ case: 'buildResult', value: build.result });
    const known = new Set(findings.map(({ message }) => message));
    const others = build.findings.filter(({ message }) => !known.has(message));
    emitFindings(services, others);
    found.result.findings.push(...others);
    return build.image === undefined ? 'the kernel was not built' : undefined;
  },
};

/** Refuses memory that outlives a launch if the result could be accepted; other plans only report it. */
export function judgeKeptState({ job, spec }: VariantServices, { findings, keptState }: KernelBuild): void {
  const finding = keepsStateFinding(keptState);
  if (!finding) return;
  if (spec.judged?.plan.acceptable) findings.push(finding);
  else emitWarning(job, `${finding.message}; a plan whose results can be accepted refuses it`);
}
