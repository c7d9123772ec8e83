import { join } from 'node:path';
import type { Shape, Device } from '@flashcore/shared/contract';
import {
  planLaunches,
  type LaunchPlan,
  type ProblemCase,
  outputTolerances,
  referenceSource,
} from '@flashcore/shared/kernels';
import type { Executor } from '../../worker/messages/device.ts';
import { type Candidate, type DeviceImage, withScratch } from '../../worker/messages/launchable.ts';
import type { JudgementRules } from '../../worker/messages/verifying.ts';
import { judgesRounding, type VerifySpec } from '../spec/job-spec.ts';
import { boxedReference } from '../workers/worker-entry.ts';
import { type VariantServices, emitWarning, emitLog } from './job-services.ts';

interface CandidateOptions {
  image: DeviceImage;
  shape: Shape;
  instrumented?: boolean;
}

/** The least time limit of a launch, however small its shape. */
const BASE_MS = 8_000;
/**
 * Far below the slowest kernel of the ladder: the emulator does some 1e9 operations a second on two CPUs, a GPU 1e12.
 */
const SLOWEST_FLOPS_PER_MS = { simulated: 2e4, real: 1e7 };
/** The race hooks make a launch about ten times slower. */
const INSTRUMENTED_FACTOR = 10;

/** How long one run of a case's launches may take before its process is killed, milliseconds. */
function launchLimitMs(
  { flops }: Pick<ProblemCase, 'flops'>,
  options: { simulated: boolean; instrumented?: boolean },
): number {
  const slowest = options.simulated ? SLOWEST_FLOPS_PER_MS.simulated : SLOWEST_FLOPS_PER_MS.real;
  return BASE_MS + (flops / slowest) * (options.instrumented ? INSTRUMENTED_FACTOR : 1);
}

/** How long no further block of a launch may begin: the limit of a block's share of the work. */
function stallLimitMs(plan: LaunchPlan, options: { simulated: boolean; instrumented?: boolean }): number {
  // The CTAs of a cooperative launch all begin at once.
  const blocks = plan.launches.map(({ grid: [x, y, z], cooperative }) => (cooperative ? 1 : x * y * z));
  return launchLimitMs({ flops: plan.flops / Math.min(...blocks) }, options);
}

/** The module and the launches of a shape, for the worker. */
export function candidateFor(services: VariantServices, options: CandidateOptions): Candidate {
  const { spec, resolved } = services;
  const { image, shape, instrumented = false } = options;
  const planned = withScratch(planLaunches(spec.kernel.manifest, resolved, shape), image);
  const plan = withClusters(planned, hasClusters(services));
  return {
    image,
    plan,
    launchLimitMs: launchLimitMs(plan, { simulated: spec.device.simulated, instrumented }),
    stallLimitMs: stallLimitMs(plan, { simulated: spec.device.simulated, instrumented }),
  };
}

/** A device without clusters runs the same CTAs one by one; a warning of the job says so. */
const withClusters = (plan: LaunchPlan, has: boolean): LaunchPlan =>
  has ? plan : { ...plan, launches: plan.launches.map(({ cluster: _, ...launch }) => launch) };

/**
 * Warns of default shapes that are adapted because the kernel takes none of them, and of launch options that the device
 * lacks; the launches run the same CTAs without these options.
 */
export function warnOfPlan(services: VariantServices): void {
  const { job, spec, resolved } = services;
  const { adapted } = spec.verify ?? spec.benchmark ?? spec.profile ?? {};
  if (adapted !== undefined)
    emitWarning(
      job,
      `${spec.kernel.kernelId} takes none of the default shapes: they run with ${adapted}; --shape chooses others`,
    );
  const [shape] = spec.shapes;
  if (spec.method === 'build' || !shape) return;
  const device = { ...spec.device, clusters: hasClusters(services) };
  for (const warning of optionsWithoutEffect(planLaunches(spec.kernel.manifest, resolved, shape), device))
    emitWarning(job, warning);
}

/** The emulator has clusters with the PTX engine, for code compiled for sm_90 or later. */
const hasClusters = ({ spec: { device, arch }, tools }: Pick<VariantServices, 'spec' | 'tools'>): boolean =>
  device.simulated ? tools.emulation().engine === 'ptx' && parseInt(arch.slice(3), 10) >= 90 : device.clusters;

function optionsWithoutEffect(
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

/** How the worker judges the variant's outputs. Errors: those of referenceProcess(). */
export async function judgementRules(
  services: VariantServices,
  { tolerance }: Pick<VerifySpec, 'tolerance'>,
): Promise<JudgementRules> {
  const { spec, cases, resolved } = services;
  return {
    tolerance: { absolute: tolerance.absolute, relative: tolerance.relative },
    ownTolerances: outputTolerances(spec.kernel.manifest.problem, cases, resolved.dtype),
    judgeRounding: judgesRounding({ tolerance }),
    ownReference: await referenceProcess(services),
  };
}

/**
 * The process that runs the own reference of the kernel's problem; undefined if the built-in oracle covers the problem.
 * If reference.cpp does not compile, the job's log has the compiler's output. Errors: COMPILER_MISSING,
 * INVALID_MANIFEST, DEVICE_UNAVAILABLE.
 */
async function referenceProcess({ job, spec, tools, runtime }: VariantServices): Promise<Executor | undefined> {
  const { problem } = spec.kernel.manifest;
  if (problem.operation !== 'own') return undefined;
  const program = await tools.libraries.ownReference(referenceSource(problem), {
    signal: job.signal,
    onLine: (source, line) => emitLog(job, source, line),
  });
  const name = spec.device.deviceId;
  const scratch = join(runtime.instruments.dataDirectory, 'references', name);
  return boxedReference(await tools.box(), { ...program, name, scratch });
}
