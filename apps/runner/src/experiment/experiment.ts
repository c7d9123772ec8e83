import { create } from '@bufbuild/protobuf';
import { JobResultSchema, Verdict, outcomeOfJob, type JobResult, type Outcome } from '@flashcore/shared/contract';
import type { ResolvedVariant } from '@flashcore/shared/kernels';
import type { JobOutcome } from '../jobs/job-context.ts';
import { benchmarkPhase } from '../phases/benchmark-phase.ts';
import { buildPhase } from '../phases/build-phase.ts';
import { comparisonPhase } from '../phases/comparison-phase.ts';
import { gatesPhase } from '../phases/gates-phase.ts';
import { Judging } from '../phases/judging.ts';
import { nothingFound, variantFound, type JobFound, type VariantFound } from '../phases/job-found.ts';
import { variantServices, type JobServices } from '../phases/job-services.ts';
import { runPhases, type VariantPhase } from '../phases/phase.ts';
import { precheckPhase } from '../phases/precheck-phase.ts';
import { profilePhase } from '../phases/profile-phase.ts';
import { verifyPhase } from '../phases/verify-phase.ts';
import { costOf, type DeviceRates } from './cost.ts';
import { provenanceOf } from './provenance.ts';
import { summaryOf } from './summary.ts';

/** Identity of the runner, for birth certificates. */
export interface RunnerIdentity {
  version: string;
  buildId: string;
  rates: DeviceRates;
}

/** All that a variant can go through, in this order; a job's spec says which of them it wants. */
const PHASES: readonly VariantPhase[] = [
  precheckPhase,
  buildPhase,
  verifyPhase,
  benchmarkPhase,
  comparisonPhase,
  profilePhase,
  gatesPhase,
];

/**
 * The body of every job: the variant asked for, and beside it the one without tensor cores where a hard gate failed.
 * Where it is stopped, or can't go on, what was measured by then is kept: minutes of a device are in it.
 */
export async function runJob(services: JobServices, runner: RunnerIdentity): Promise<JobOutcome> {
  const startTime = new Date();
  const started = performance.now();
  const found = nothingFound();
  const soFar = (): JobResult => {
    // Nothing is known of a variant that was not built.
    const variants = found.variants.filter(({ build }) => build !== undefined);
    const deviceSeconds = (performance.now() - started) / 1000;
    return create(JobResultSchema, {
      provenance: provenanceOf(services, found, { runner, startTime }),
      prechecks: found.prechecks,
      variants,
      deviceSeconds,
      ...costOf(services.spec.device, deviceSeconds, runner.rates),
    });
  };
  try {
    await runVariants(services, found);
  } catch (error) {
    services.job.keep(soFar());
    throw error;
  }
  return ended(soFar());
}

async function runVariants(services: JobServices, found: JobFound): Promise<void> {
  const { resolved, fallback } = services.spec;
  const { result } = await runVariant(services, found, { resolved, fallback: false });
  if (!fallback || !result.gates.some(({ verdict, level }) => verdict === Verdict.FAIL && level === 'hard')) return;
  await runVariant(services, found, { resolved: fallback, fallback: true });
}

async function runVariant(
  services: JobServices,
  job: JobFound,
  { resolved, fallback }: { resolved: ResolvedVariant; fallback: boolean },
): Promise<VariantFound> {
  const found = variantFound(job, resolved, { fallback });
  const variant = variantServices(services, resolved);
  const { judged } = services.spec;
  if (judged) {
    found.judging = new Judging(variant, judged, found.result);
    found.judging.announce();
  }
  await runPhases(PHASES, variant, found);
  return found;
}

function ended(result: JobResult): JobOutcome {
  const outcome: Outcome = outcomeOfJob(result.prechecks, result.variants);
  return { outcome, summary: summaryOf(outcome, result), result };
}
