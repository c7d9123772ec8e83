import { create } from '@bufbuild/protobuf';
import {
  JobResultSchema, Outcome, Verdict, outcomeOfJob, type JobResult, type PrecheckItem, type VariantResult,
} from '@flashcore/shared';
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

/** The body of every job: go/no-go check, the variant asked for, and beside it the one without tensor cores where a hard gate failed. */
export async function runJob(scope: JobScope, runner: RunnerIdentity): Promise<JobOutcome> {
  const startTime = new Date();
  const started = performance.now();
  const prechecks = scope.spec.method === 'runExperiment' ? runPrecheck(scope) : [];
  const go = prechecks.every(({ verdict }) => verdict !== Verdict.FAIL);
  const variants = go ? await runVariants(scope) : [];
  const deviceSeconds = (performance.now() - started) / 1000;
  const result = create(JobResultSchema, {
    provenance: provenanceOf(scope, { runner, startTime, variants }), prechecks, variants, deviceSeconds, ...costOf(scope.spec.device, deviceSeconds, runner.rates),
  });
  return ended(prechecks, variants, result);
}

async function runVariants(scope: JobScope): Promise<VariantResult[]> {
  const { spec } = scope;
  const asked = await runVariant(scope, spec.resolved, { fallback: false });
  if (!spec.fallback || !asked.gates.some(({ verdict, level }) => verdict === Verdict.FAIL && level === 'hard')) return [asked];
  return [asked, await runVariant(scope, spec.fallback, { fallback: true })];
}

function ended(prechecks: readonly PrecheckItem[], variants: readonly VariantResult[], result: JobResult): JobOutcome {
  const outcome: Outcome = outcomeOfJob(prechecks, variants);
  return { outcome, summary: summaryOf(outcome, result), result };
}
