import { create } from '@bufbuild/protobuf';
import {
  JobResultSchema,
  Outcome,
  Verdict,
  outcomeOfJob,
  type JobResult,
  type VariantResult,
  ExpectationSchema,
  type Expectation,
  Phase,
} from '@flashcore/shared/contract';
import { planMessage, undecided, type ResolvedVariant, measureMetric, formatShape } from '@flashcore/shared/kernels';
import type { JobOutcome } from '../jobs/job-context.ts';
import { benchmarkPhase } from '../phases/benchmark-phase.ts';
import { buildPhase } from '../phases/build-phase.ts';
import { differencePhase } from '../phases/champion-difference.ts';
import { comparisonPhase } from '../phases/comparison-phase.ts';
import { heldOutPhase } from '../phases/held-out-phase.ts';
import { Judging } from '../phases/judging.ts';
import { nothingFound, variantFound, type JobFound, type VariantFound } from '../phases/job-found.ts';
import { emitLog, emitWarning, variantServices, type JobServices, startPhase } from '../phases/job-services.ts';
import { runPhases, type VariantPhase } from '../phases/phase.ts';
import { precheckPhase } from '../phases/precheck-phase.ts';
import { profilePhase, profileReadPhase, profileVerifiedPhase } from '../phases/profile-phase.ts';
import { verifyPhase } from '../phases/verify-phase.ts';
import { restOfBuildPhase } from '../phases/rest-of-build-phase.ts';
import { acceptabilityOf } from './acceptability.ts';
import { rankingMessage } from '../spec/ranked-run.ts';
import type { MeasuredSteps } from '../store/measured-steps.ts';
import { runTune } from '../tune/variant-search.ts';
import { costOf } from './cost.ts';
import { provenanceOf, type RunnerIdentity } from './provenance.ts';
import { summaryOf } from './summary.ts';

/** Gives the gates their final results if the kernel was built, even if an earlier phase stopped the later ones. */
const gatesPhase: VariantPhase = {
  phase: Phase.GATES,
  wants: (_services, { judging, build }) => judging !== undefined && build !== undefined,
  evenStopped: true,
  run(services, { judging, build, result, stopped }) {
    // For a kernel that does not compile no gate is evaluated, so announcing a phase with a number of gates would
    // mislead.
    if (build!.result.succeeded) startPhase(services, Phase.GATES, services.spec.judged!.gates.length);
    result.gates = judging!.finish(stopped);
    return Promise.resolve(undefined);
  },
};

/** All phases of a variant, in the order in which they run. The job's spec decides which of them run. */
const PHASES: readonly VariantPhase[] = [
  precheckPhase,
  buildPhase,
  verifyPhase,
  profileVerifiedPhase,
  benchmarkPhase,
  profileReadPhase,
  comparisonPhase,
  heldOutPhase,
  profilePhase,
  differencePhase,
  restOfBuildPhase,
  gatesPhase,
];

/**
 * The body of every job but a search: runs the requested variant and, if it fails, the variant without tensor cores. If
 * the job is stopped or can't continue, the results so far are kept, because they took minutes of device time.
 */
export async function runJob(services: JobServices, runner: RunnerIdentity): Promise<JobOutcome> {
  const startTime = new Date();
  const started = performance.now();
  const found = nothingFound();
  const soFar = (): JobResult => jobResult(services, found, { runner, startTime, started });
  const endSoFar = (): JobOutcome => ended(services, found, soFar());
  let isDecided = false;
  const decided = (): void => {
    isDecided = true;
    services.job.decide(endSoFar());
  };
  try {
    await runVariants(services, found, decided);
  } catch (error) {
    services.job.keep(isDecided ? endSoFar().result : soFar());
    throw error;
  } finally {
    await found.fallbackBuild?.drop();
  }
  return endSoFar();
}

/** The runner that ran the job, and when it began; `started` is a value of performance.now(). */
interface Birth {
  runner: RunnerIdentity;
  startTime: Date;
  started: number;
}

/** The result of a job, with provenance and cost. */
function jobResult(services: JobServices, found: JobFound, { runner, startTime, started }: Birth): JobResult {
  // Leaves out variants that were not built, because they have no results.
  const variants = found.variants.filter(({ build }) => build !== undefined);
  const deviceSeconds = (performance.now() - started) / 1000;
  const { spec } = services;
  const { judged } = spec;
  return create(JobResultSchema, {
    provenance: provenanceOf(services, found, { runner, startTime }),
    prechecks: found.prechecks,
    variants,
    phaseTimes: found.phaseTimes,
    deviceSeconds,
    ...(found.fellBack !== undefined && { fellBack: found.fellBack }),
    ...(judged && {
      plan: planMessage(judged.plan, variants[0]?.gates ?? judged.gates.map(undecided), {
        isDefault: judged.isDefault,
        problem: spec.kernel.manifest.problem.id,
      }),
    }),
    ...(spec.ranking && { ranking: rankingMessage(spec.ranking) }),
    lineage: services.kernels.lineage(spec.kernel),
    expectations: expectationsOf(services, variants[0]),
    ...costOf(spec.device, deviceSeconds, runner.rates),
  });
}

/** The body of a search over variants. */
export function runTuneJob(services: JobServices, steps: MeasuredSteps, runner: RunnerIdentity): Promise<JobOutcome> {
  const birth = { runner, startTime: new Date(), started: performance.now() };
  return runTune({
    services,
    steps,
    tune: services.spec.tune!,
    costUsd: (seconds) => costOf(services.spec.device, seconds, runner.rates).costUsd,
    resultOf: (found, tune) => create(JobResultSchema, { ...jobResult(services, found, birth), tune }),
  });
}

/**
 * Runs the requested variant. If it fails in any way, even to build, the variant without tensor cores runs as well. If
 * the plan continues with that variant, the job is judged by it; otherwise `decided` is called before that variant
 * runs.
 */
async function runVariants(services: JobServices, found: JobFound, decided: () => void): Promise<void> {
  const { resolved, fallback, judged } = services.spec;
  const { result } = await runVariant(services, found, { resolved, fallback: false });
  const noGo = found.prechecks.some(({ verdict }) => verdict === Verdict.FAIL);
  const outcome = outcomeOfJob([], [result]);
  if (!fallback || noGo || outcome === Outcome.PASSED) return;
  if (judged?.plan.fallback === 'continue') {
    found.fellBack = `${resolved.label} ${failureText(outcome, result)}: plan ${judged.plan.name} goes on with ${fallback.label}`;
    emitWarning(services.job, `FELL BACK: ${found.fellBack}`);
  } else {
    emitLog(
      services.job,
      'runner',
      `${resolved.label} failed, so its fallback ${fallback.label} runs as well and decides nothing; --no-fallback leaves it out`,
    );
    decided();
  }
  await runVariant(services, found, { resolved: fallback, fallback: true });
}

function failureText(outcome: Outcome, { gates, findings }: VariantResult): string {
  const failed = gates.filter(({ verdict, level }) => verdict === Verdict.FAIL && level === 'hard');
  if (outcome === Outcome.FAILED && failed.length > 0)
    return `was rejected by ${failed.map(({ gateId }) => gateId).join(', ')}`;
  const word = (Outcome[outcome] ?? 'failed').toLowerCase().replaceAll('_', ' ');
  return `ended as ${word}${findings[0] ? ` (${findings[0].message})` : ''}`;
}

interface WantedVariant {
  resolved: ResolvedVariant;
  fallback: boolean;
}

async function runVariant(
  services: JobServices,
  job: JobFound,
  { resolved, fallback }: WantedVariant,
): Promise<VariantFound> {
  const found = variantFound(job, resolved, { fallback });
  const variant = variantServices(services, resolved);
  const { judged } = services.spec;
  if (judged) {
    found.judging = new Judging(variant, judged, found.result);
    found.judging.announce();
  }
  try {
    await runPhases(PHASES, variant, found);
  } finally {
    await found.profiling?.drop();
  }
  return found;
}

function ended(services: JobServices, found: JobFound, result: JobResult): JobOutcome {
  const outcome = outcomeOfJob(result.prechecks, result.variants, { fellBack: found.fellBack !== undefined });
  const acceptability = acceptabilityOf(services.spec, { ...found, outcome, job: services.job.name });
  if (acceptability) result.acceptability = acceptability;
  return { outcome, summary: summaryOf(outcome, result), result };
}

/**
 * Figures that the kernel's notes claim or project, along with what was measured here for the same metric and shape.
 * Times are hot, because the notes timed launches in a loop.
 */
export function expectationsOf({ spec, cases }: JobServices, variant: VariantResult | undefined): Expectation[] {
  return spec.kernel.manifest.expectations.map(({ note, ...expectation }) => {
    const { metric: name, shape } = expectation;
    const measured =
      variant &&
      measureMetric({ name, mode: 'hot', shape: formatShape(shape) }, { variant, cases, benchmarked: [shape] });
    return create(ExpectationSchema, {
      ...expectation,
      note: note ?? '',
      ...(measured !== undefined && { measured, measuredOn: spec.device.name }),
    });
  });
}
