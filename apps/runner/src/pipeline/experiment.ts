import { create } from '@bufbuild/protobuf';
import { Outcome, Verdict, JobResultSchema, outcomeOfJob, type JobResult } from '@flashcore/shared/contract';
import type { JobOutcome } from '../jobs/job-context.ts';
import { costOf, type DeviceRates } from './cost.ts';
import type { JobScope } from './job-scope.ts';
import { runPrecheck } from './precheck.ts';
import { provenanceOf } from './provenance.ts';
import { summaryOf } from './summary.ts';
import { runVariant } from './variant-run.ts';

/** Identity of the runner, for birth certificates. */
export interface RunnerIdentity {
  version: string;
  buildId: string;
  rates: DeviceRates;
}

/**
 * The body of every job: go/no-go check, the variant asked for, and beside it the one without tensor cores where a hard
 * gate failed. Where it is stopped, or can't go on, what was measured by then is
 * kept: minutes of a device are in it.
 */
export async function runJob(scope: JobScope, runner: RunnerIdentity): Promise<JobOutcome> {
  const startTime = new Date();
  const started = performance.now();
  const prechecks = scope.spec.method === 'runExperiment' ? runPrecheck(scope) : [];
  const go = prechecks.every(({ verdict }) => verdict !== Verdict.FAIL);
  const found = (): JobResult => {
    // Nothing is known of a variant that was not built.
    const variants = scope.variants.filter(({ build }) => build !== undefined);
    const deviceSeconds = (performance.now() - started) / 1000;
    return create(JobResultSchema, {
      provenance: provenanceOf(scope, { runner, startTime, variants }),
      prechecks,
      variants,
      deviceSeconds,
      ...costOf(scope.spec.device, deviceSeconds, runner.rates),
    });
  };
  try {
    if (go) await runVariants(scope);
  } catch (error) {
    scope.job.keep(found());
    throw error;
  }
  return ended(found());
}

async function runVariants(scope: JobScope): Promise<void> {
  const { spec } = scope;
  const asked = await runVariant(scope, spec.resolved, { fallback: false });
  if (!spec.fallback || !asked.gates.some(({ verdict, level }) => verdict === Verdict.FAIL && level === 'hard')) return;
  await runVariant(scope, spec.fallback, { fallback: true });
}

function ended(result: JobResult): JobOutcome {
  const outcome: Outcome = outcomeOfJob(result.prechecks, result.variants);
  return { outcome, summary: summaryOf(outcome, result), result };
}
