/**
 * Decides which runs are ranked: only runs in which the runner's owner fixed everything that the verdict depends on, in
 * kernels/gates.yaml and kernels/cases.yaml. Only results of ranked runs can be accepted or appear in the leaderboard.
 */
import { createHash } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { RankingSchema, type Ranking, type RunExperimentRequest, type Shape } from '@flashcore/shared/contract';
import { formatShape, ownDefinition, type Problem } from '@flashcore/shared/kernels';
import type { SamplingProtocol } from '../../worker/messages/measuring.ts';
import { INPUTS_VERSION } from './benchmark-protocol.ts';
import {
  judgesRounding,
  type BenchmarkSpec,
  type JobSpec,
  type ProfileSpec,
  type RunRanking,
  type VerifySpec,
} from './job-spec.ts';
import type { JudgedBy } from './judged-by.ts';

/** Fewer inputs would leave out a distribution, and a kernel's mistake may show on only one of them. */
export const FEWEST_SEEDS = 5;

/** Whether the result of this job may decide the champion. Only this function decides it. */
export const isRankedRun = ({ ranking }: Pick<JobSpec, 'ranking'>): boolean => ranking?.reasons.length === 0;

export const rankingMessage = ({ reasons, rulesDigest }: RunRanking): Ranking =>
  create(RankingSchema, { ranked: reasons.length === 0, reasons, rulesDigest });

/** A job's work by phase. */
export interface PhaseSpecs {
  verify: VerifySpec | undefined;
  benchmark: BenchmarkSpec | undefined;
  profile: ProfileSpec | undefined;
}

interface RankedParts {
  request: RunExperimentRequest;
  judged: JudgedBy;
  casesDigest: string;
  problem: Problem;
  /** The phases as requested. */
  asked: PhaseSpecs;
  /** The phases of the same request with all its settings left to the plan; or a text: why the plan can't be run. */
  fixed: PhaseSpecs | string;
  /** Why the candidate is not compared with a champion that exists or could be chosen; undefined otherwise. */
  championLeftOut: string | undefined;
}

/** Decides whether a planned job is ranked, and lists all reasons why it is not. */
export function rankingOf(parts: RankedParts): RunRanking {
  const { request, judged, casesDigest, problem, fixed } = parts;
  const rulesDigest = digestOfRules({ gates: judged.text, plan: judged.plan.name, casesDigest, problem });
  const { assigned } = request;
  if (assigned) {
    const reasons = assigned.ranking?.reasons ?? [];
    const otherRules = assigned.ranking?.rulesDigest !== rulesDigest;
    return {
      reasons: otherRules ? [...reasons, "the node's gates or cases are not the gateway's"] : reasons,
      rulesDigest,
    };
  }
  const reasons = [
    ...problemReasons(problem),
    ...planReasons(judged),
    ...(typeof fixed === 'string' ? [fixed] : settingReasons(parts.asked, fixed)),
    ...championReasons(parts),
  ];
  return { reasons, rulesDigest };
}

/** Everything that the runner's owner fixes for a ranked run. */
interface Rules {
  /** The gates file, as text. */
  gates: string;
  plan: string;
  casesDigest: string;
  problem: Problem;
}

/** Identifies the rules of a ranked run: a result is accepted only while they are unchanged. */
export function digestOfRules({ gates, plan, casesDigest, problem }: Rules): string {
  // The definition is part of the digest only for problems that the runner's owner may edit, not for flashcore's own.
  const definition = ownDefinition(problem);
  return createHash('sha256')
    .update(JSON.stringify([INPUTS_VERSION, gates, plan, casesDigest, ...(definition ? [definition] : [])]))
    .digest('hex');
}

/** A problem defines which answers are correct, so it must come from the runner's owner. */
const problemReasons = ({ id, brought }: Problem): string[] =>
  brought ? [`the problem ${id} comes from the client: the runner's owner installs it (serve --problems FOLDER)`] : [];

function planReasons({ plan, clientGates, loosened }: JudgedBy): string[] {
  return [
    ...(clientGates ? ['client gates'] : []),
    ...(plan.acceptable ? [] : [`plan ${plan.name} accepts nothing: run it with a plan such as merge`]),
    ...(loosened.length > 0 ? [`the kernel's own gates loosen ${loosened.join(', ')}`] : []),
  ];
}

function settingReasons(asked: PhaseSpecs, fixed: PhaseSpecs): string[] {
  return [
    ...(asked.verify && fixed.verify ? verifyReasons(asked.verify, fixed.verify) : ['nothing is verified']),
    ...(asked.benchmark && fixed.benchmark
      ? benchmarkReasons(asked.benchmark, fixed.benchmark)
      : ['nothing is benchmarked']),
    ...profileReasons(asked.profile, fixed.profile),
  ];
}

function verifyReasons(asked: VerifySpec, fixed: VerifySpec): string[] {
  const { tolerance } = fixed;
  const looser = asked.tolerance.absolute > tolerance.absolute || asked.tolerance.relative > tolerance.relative;
  const fewest = Math.max(FEWEST_SEEDS, fixed.seedCount);
  return [
    ...(hasAll(asked.shapes, fixed.shapes) ? [] : ["cases other than the plan's"]),
    ...(asked.seeds.length > 0 ? ['seeds given by the request'] : []),
    ...(asked.seeds.length === 0 && asked.seedCount < fewest
      ? [`${asked.seedCount} of at least ${fewest} seeds a case`]
      : []),
    ...(looser || (judgesRounding(fixed) && !judgesRounding(asked))
      ? [`tolerance looser than ${tolerance.profile ?? "the plan's"}`]
      : []),
    ...(fixed.probes && !asked.probes ? ['no probes'] : []),
  ];
}

function benchmarkReasons(asked: BenchmarkSpec, fixed: BenchmarkSpec): string[] {
  const sameShapes = hasAll(asked.shapes, fixed.shapes) && hasAll(fixed.shapes, asked.shapes);
  const limits = samplingLimits(asked.protocol.sampling, fixed.protocol.sampling);
  return [
    ...(sameShapes ? [] : ["benchmark shapes other than the plan's"]),
    ...(fixed.modes.every((mode) => asked.modes.includes(mode)) ? [] : ["timing modes other than the plan's"]),
    ...(limits.length > 0 ? [`the request limits ${limits.join(', ')}`] : []),
    ...(asked.sdpaBackends.length > 0 ? ["SDPA backends other than the plan's"] : []),
    ...(asked.rivals.length > 0 ? ["rivals other than the plan's"] : []),
  ];
}

/** The settings in which the request measures less than the plan's protocol. */
function samplingLimits(asked: SamplingProtocol, fixed: SamplingProtocol): string[] {
  return [
    ...(asked.minSamples < fixed.minSamples || asked.maxSamples < fixed.maxSamples ? ['the number of samples'] : []),
    ...(asked.maxSeconds < fixed.maxSeconds ? ['the time of sampling'] : []),
    ...(asked.targetRelativeHalfWidth > fixed.targetRelativeHalfWidth ? ['the width of the interval'] : []),
  ];
}

/** The request's profile must have the plan's counters and shape, because gates are decided by its figures. */
function profileReasons(asked: ProfileSpec | undefined, fixed: ProfileSpec | undefined): string[] {
  if (!fixed) return [];
  const lacking = fixed.counters.some((counter) => !asked?.counters.includes(counter));
  return asked && !lacking && asked.metricSet === fixed.metricSet && hasAll([asked.shape], [fixed.shape])
    ? []
    : ["profile other than the plan's"];
}

function championReasons({ request, championLeftOut }: RankedParts): string[] {
  if (request.benchmark?.champion) return ['champion named by the request'];
  return championLeftOut === undefined ? [] : [championLeftOut];
}

function hasAll(shapes: readonly Shape[], wanted: readonly Shape[]): boolean {
  const found = new Set(shapes.map(formatShape));
  return wanted.every((shape) => found.has(formatShape(shape)));
}
