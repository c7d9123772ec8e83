import { hostname } from 'node:os';
import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  JobResultSchema, Outcome, ToolSchema, Verdict, findDataSheet, outcomeOfJob, type JobResult, type PrecheckItem, type Provenance, type VariantResult,
} from '@flashcore/shared';
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ProvenanceSchema } from '@flashcore/shared';
import type { JobOutcome } from '../jobs/job-context.ts';
import { PROTOCOL_VERSION } from './benchmark-protocol.ts';
import type { JobScope } from './job-scope.ts';
import { runPrecheck } from './precheck.ts';
import { summaryOf } from './summary.ts';
import { runVariant } from './variant-run.ts';

/** Identity of the runner, for birth certificates. */
export interface RunnerIdentity {
  version: string;
  buildId: string;
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
    provenance: provenanceOf(scope, runner, startTime), prechecks, variants, deviceSeconds, ...costOf(scope, deviceSeconds),
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

function costOf({ spec: { device } }: JobScope, seconds: number): { costUsd?: number } {
  const rate = device.simulated ? undefined : findDataSheet(device.name)?.usdPerHour;
  return rate === undefined ? {} : { costUsd: (rate * seconds) / 3600 };
}

function provenanceOf({ spec, tools, seeds }: JobScope, runner: RunnerIdentity, startTime: Date): MessageInitShape<typeof ProvenanceSchema> {
  const compilers = tools.toolchain.describe().filter(({ missing, archs }) => missing === '' && archs.length > 0);
  return {
    runnerVersion: runner.version,
    runnerBuildId: runner.buildId,
    device: spec.device,
    hostName: hostname(),
    tools: compilers.map((tool) => create(ToolSchema, tool)),
    sourceDigest: spec.kernel.sourceDigest,
    time: timestampFromDate(startTime),
    seeds,
    protocol: PROTOCOL_VERSION,
  } satisfies Partial<Provenance>;
}
