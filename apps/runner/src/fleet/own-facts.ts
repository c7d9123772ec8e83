/** Replaces a pilot's claims about a run with the gateway's own facts. */
import { create } from '@bufbuild/protobuf';
import {
  Outcome,
  RankingSchema,
  RunFactsSchema,
  asFlashcoreError,
  type AssignedRun,
  type JobResult,
  type Ranking,
  type RunFacts,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { acceptCommand } from '../experiment/acceptability.ts';
import { INPUTS_VERSION, PROTOCOL_VERSION } from '../spec/benchmark-protocol.ts';
import type { JobSpec } from '../spec/job-spec.ts';
import { NO_CHAMPION } from '../store/decisions.ts';

/** The gateway's view of a job. */
export interface OwnFacts {
  job: string;
  /** undefined if the job is not an experiment. */
  assigned: AssignedRun | undefined;
  /**
   * Plans the job again, for a request that does not carry its facts. Throws if the gateway's rules no longer allow the
   * job.
   */
  facts: () => RunFacts;
}

/** The facts about a result that follow from the job's plan; `lineage`: the kernel and the steps below it. */
export const factsOf = ({ judged, kernel, resolved, benchmark }: JobSpec, lineage: string[]): RunFacts =>
  create(RunFactsSchema, {
    lineage,
    problem: kernel.manifest.problem.id,
    dtype: resolved.dtype,
    ...(judged && { plan: judged.plan.name, gatesDigest: judged.digest, gatesSource: judged.source }),
    shapes: benchmark?.shapes ?? [],
  });

/** Sets what the result is about, by which rules it was judged, and whether it may decide who is champion. */
export function stateOwnFacts(result: JobResult, outcome: Outcome, own: OwnFacts): void {
  const { assigned } = own;
  let facts: RunFacts;
  try {
    facts = assigned?.facts ?? own.facts();
  } catch (error) {
    decideNothing(result, assigned, [`the gateway's rules have changed: ${asFlashcoreError(error).message}`]);
    return;
  }
  result.lineage = facts.lineage;
  stateRules(result, facts);
  const foreign = foreignShape(result, facts);
  if (foreign !== undefined) decideNothing(result, assigned, [`its node measured ${foreign}, which was not asked for`]);
  else requireRanked(result, assigned);
  const { acceptability } = result;
  if (!acceptability?.possible && !acceptability?.notesWanted) return;
  if (outcome !== Outcome.PASSED) return refuseAcceptance(result, 'it did not pass');
  const { championJob = '', championLabel = '' } = assigned ?? {};
  const over = championJob || NO_CHAMPION;
  Object.assign(acceptability, { over, replaces: championLabel || undefined, command: acceptCommand(own.job, over) });
}

function stateRules({ provenance, plan: judged }: JobResult, facts: RunFacts): void {
  const { problem, dtype, plan, gatesDigest, gatesSource } = facts;
  if (judged && plan !== '') judged.name = plan;
  if (!provenance) return;
  Object.assign(provenance, {
    problem,
    dtype,
    protocol: PROTOCOL_VERSION,
    inputsVersion: INPUTS_VERSION,
    ...(plan !== '' && { plan, gatesDigest, gatesSource }),
  });
}

/** Makes the run unranked unless gateway and node both rank it, because the node's rules may differ. */
function requireRanked(result: JobResult, assigned: AssignedRun | undefined): void {
  const { acceptability, ranking } = result;
  if (!acceptability && !ranking) return;
  if (assigned?.ranking?.ranked && ranking?.ranked) ranking.rulesDigest = assigned.ranking.rulesDigest;
  else decideNothing(result, assigned, ranking?.reasons ?? []);
}

function decideNothing(result: JobResult, assigned: AssignedRun | undefined, more: readonly string[]): void {
  const own: Pick<Ranking, 'reasons' | 'rulesDigest'> | undefined = assigned?.ranking;
  const reasons = own ? [...own.reasons, ...more] : ['asked for before ranked runs existed'];
  result.ranking = create(RankingSchema, {
    ranked: false,
    reasons: [...new Set(reasons)],
    rulesDigest: own?.rulesDigest ?? '',
  });
  const { possible, notesWanted } = result.acceptability ?? {};
  if (possible || notesWanted) refuseAcceptance(result, `not ranked: ${result.ranking.reasons.join('; ')}`);
}

function refuseAcceptance({ acceptability }: JobResult, reason: string): void {
  Object.assign(acceptability!, { possible: false, notesWanted: false, reason, command: '', over: '' });
}

/** A measured shape that the job did not request. It would put the kernel on a leaderboard for which it was not run. */
function foreignShape({ variants }: JobResult, { shapes }: RunFacts): string | undefined {
  const asked = new Set(shapes.map(formatShape));
  const measured = variants.flatMap(({ benchmarks }) => benchmarks);
  return measured.flatMap(({ shape }) => (shape ? [formatShape(shape)] : [])).find((shape) => !asked.has(shape));
}
