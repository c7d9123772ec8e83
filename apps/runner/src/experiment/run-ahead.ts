import type { BuildResult } from '@flashcore/shared/contract';
import { DeviceNeeded } from '../device/no-device.ts';
import type { JobContext, JobOutcome, JobPayload } from '../jobs/job-context.ts';
import { runBuild } from '../phases/build-phase.ts';
import { championServices, championVariant } from '../phases/comparison-phase.ts';
import { variantServices, type JobServices } from '../phases/job-services.ts';
import { launchedEntries } from '../phases/rest-of-build-phase.ts';
import { runJob } from './experiment.ts';
import type { RunnerIdentity } from './provenance.ts';

/** How far a job got without a device. */
export interface RanAhead {
  /**
   * The outcome of a job that ended without a device, and its events except log lines; undefined if the job needs a
   * device.
   */
  ended?: { outcome: JobOutcome; told: JobPayload[] };
  /** Builds of the job's own variants. */
  builds: BuildResult[];
}

/**
 * Runs a job as far as possible without a device, that is, its prechecks and builds. A kernel that does not compile
 * ends here as it would on a device, but at no cost. Log lines are sent at once; other events are collected.
 * `services.runtime` must be a NoDevice. Errors: as runJob().
 */
export async function runAhead(services: JobServices, runner: RunnerIdentity): Promise<RanAhead> {
  const told: JobPayload[] = [];
  const job: JobContext = {
    ...services.job,
    emit: (payload) => (payload.case === 'logLine' ? services.job.emit(payload) : void told.push(payload)),
    keep: () => undefined,
    decide: () => undefined,
  };
  const builds = (): BuildResult[] => told.flatMap(({ case: kind, value }) => (kind === 'buildResult' ? [value] : []));
  try {
    const outcome = forNothing(await runJob({ ...services, job }, runner));
    return { ended: { outcome, told }, builds: builds() };
  } catch (error) {
    if (!(error instanceof DeviceNeeded)) throw error;
  }
  const { champion, benchmark } = services.spec;
  if (champion && benchmark)
    await runBuild(championServices(variantServices({ ...services, job }, services.spec.resolved), champion));
  return { builds: builds() };
}

/**
 * Compiles a waiting job's kernel and champion at the lowest priority, so that the job finds them in the cache when it
 * gets its device. Errors: as KernelBuilder.build(); the job's own build reports them.
 */
export async function compileAhead(services: Omit<JobServices, 'job' | 'runtime'>, signal: AbortSignal): Promise<void> {
  const { spec, tools } = services;
  const variant = variantServices(services, spec.resolved);
  const listener = { signal, aside: true };
  // Compiles the same entries first as the job, so that the job finds their compilations in the cache.
  const { complete } = await tools.kernels.build({ ...variant.build, first: launchedEntries(variant) }, listener);
  if (spec.champion && spec.benchmark)
    await tools.kernels.build(championVariant(variant, spec.champion).build, listener);
  await complete;
}

/** Makes the job free of charge, because it held no device. */
function forNothing(end: JobOutcome): JobOutcome {
  const { result } = end;
  result.deviceSeconds = 0;
  if (result.costUsd !== undefined) result.costUsd = 0;
  if (result.provenance?.conditions) result.provenance.conditions.notMeasured = 'no device was taken';
  return end;
}
