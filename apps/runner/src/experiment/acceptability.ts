import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  AcceptabilitySchema,
  ComparisonVerdict,
  HeldOutVerdict,
  Outcome,
  TimingMode,
  Verdict,
  type Acceptability,
  type VariantResult,
} from '@flashcore/shared/contract';
import { NOTES_FILE, layoutsOf } from '@flashcore/shared/kernels';
import { STRICT_PROFILES, type JobSpec } from '../spec/job-spec.ts';
import { isRankedRun } from '../spec/ranked-run.ts';
import { NO_CHAMPION } from '../store/decisions.ts';
import { gateTitles } from './summary.ts';

interface Ended {
  outcome: Outcome;
  variants: readonly VariantResult[];
  fellBack?: string;
  /** Name of the job. */
  job: string;
}

/** The command that accepts a job over the champion that it was compared with. */
export const acceptCommand = (job: string, over: string): string =>
  `fa-tui accept ${shortJob(job)} --over ${over === NO_CHAMPION ? over : shortJob(over)}`;

const shortJob = (name: string): string => name.replace(/^jobs\//, '').slice(0, 8);

/** Whether accepting an experiment would make a champion, which champion it would replace, and by which command. */
export function acceptabilityOf(spec: JobSpec, ended: Ended): Acceptability | undefined {
  if (!spec.judged) return undefined;
  const reason = refusal(spec, ended);
  const replaces = spec.over?.label;
  const over = spec.over?.job ?? NO_CHAMPION;
  // Why no champion is replaced. There may be a champion all the same, because the comparison may have been left out or
  // become impossible.
  const none =
    spec.noChampion ??
    (spec.champion ? 'the request named what to compare with' : `no champion of ${spec.device.name} yet`);
  const answer: MessageInitShape<typeof AcceptabilitySchema> =
    reason === undefined
      ? {
          possible: true,
          reason: replaces === undefined ? none : `the champion is ${replaces}`,
          ...(replaces !== undefined && { replaces }),
          command: acceptCommand(ended.job, over),
          over,
        }
      : {
          possible: false,
          reason: reason.text,
          ...(replaces !== undefined && { replaces }),
          ...(reason.notesWanted && { notesWanted: true, command: acceptCommand(ended.job, over), over }),
        };
  return create(AcceptabilitySchema, answer);
}

interface Refusal {
  text: string;
  /** True if the result could be accepted as soon as the kernel's NOTES.md says something. */
  notesWanted: boolean;
}

function refusal(spec: JobSpec, ended: Ended): Refusal | undefined {
  const problem = problemOf(spec, ended);
  if (problem !== undefined) return { text: problem, notesWanted: false };
  // Last, because notes can still be handed in, which must not hide another reason.
  const undocumented = documentationProblem(ended.variants[0]!);
  if (undocumented === undefined) return undefined;
  return { text: undocumented, notesWanted: spec.kernel.undocumented.every((part) => part === NOTES_FILE) };
}

/** Why the result cannot be accepted, whatever the kernel's documentation says. */
function problemOf(spec: JobSpec, { outcome, variants, fellBack }: Ended): string | undefined {
  const { kernel, resolved, benchmark, ranking, device } = spec;
  const { deprecated } = kernel.manifest;
  if (deprecated !== undefined) return `the kernel is deprecated: ${deprecated}`;
  if (outcome !== Outcome.PASSED) return `it did not pass${rejectedBy(variants)}`;
  if (fellBack !== undefined) return `it fell back: ${fellBack}`;
  if (!isRankedRun(spec)) return `not ranked: ${ranking!.reasons.join('; ')}`;
  const build = variants[0]?.build;
  if (!build?.succeeded) return 'nothing was built';
  if (!benchmark) return 'it was not benchmarked';
  if (layoutsOf(kernel.manifest, resolved.parameters).length > 0)
    return "its tensors have their own order in memory, and champions are compared in the problem's order";
  if (variants[0]!.verify?.probes.length === 0)
    return `it was not probed: cases.yaml of ${kernel.manifest.problem.id} has no probes, or none whose shape the kernel takes: add one to its \`probes\``;
  return (
    correctnessProblem(variants[0]!) ??
    heldOutProblem(variants[0]!) ??
    (device.simulated ? undefined : timesProblem(spec, variants[0]!))
  );
}

/** The missing documentation of a kernel. It does not fail a run, but prevents acceptance. */
const documentationProblem = ({ gates }: VariantResult): string | undefined =>
  gates.find(({ level, verdict }) => level === 'hard' && verdict === Verdict.NOT_JUDGED)?.detail;

function heldOutProblem({ heldOut }: VariantResult): string | undefined {
  const refused = heldOut?.verdict === HeldOutVerdict.WRONG || heldOut?.verdict === HeldOutVerdict.SLOWER;
  return refused ? heldOut.detail : undefined;
}

const NO_SLOWER: readonly ComparisonVerdict[] = [ComparisonVerdict.FASTER, ComparisonVerdict.WITHIN_MARGIN];

/**
 * Why the times of a run on a GPU prevent acceptance. There must be a valid time, every gate that rejects must have
 * been measured, and the champion, if there is one, must not be faster. A champion without a time could not be ranked,
 * and comparisons with it could fail in the same way.
 */
function timesProblem({ over }: JobSpec, { benchmarks, comparison, gates }: VariantResult): string | undefined {
  const timed = benchmarks.find(({ mode }) => mode === TimingMode.HOT) ?? benchmarks[0];
  if (!timed?.valid) return `it has no valid time: ${timed?.invalidReason ?? 'it was not timed'}`;
  if (over && (!comparison || !NO_SLOWER.includes(comparison.verdict)))
    return `it is not known to be as fast as the champion ${over.label}: ${comparison?.reason || 'the two were not compared'}`;
  const open = gates.filter(
    ({ level, verdict, metric }) =>
      level === 'hard' && verdict === Verdict.NOT_MEASURED && (over !== undefined || metric !== 'speedup_vs_champion'),
  );
  return open.length === 0 ? undefined : `not measured: ${gateTitles(open)}`;
}

function rejectedBy([asked]: readonly VariantResult[]): string {
  const failed = asked?.gates.filter(({ verdict, level }) => verdict === Verdict.FAIL && level === 'hard') ?? [];
  return failed.length === 0 ? '' : `: rejected by ${gateTitles(failed)}`;
}

/**
 * Why the correctness of a run is in doubt. The gate is found by its metric, because a client's gates file may lack the
 * gate or use its name for another gate.
 */
function correctnessProblem({ gates, verify }: VariantResult): string | undefined {
  const gate = gates.find(({ metric }) => metric === 'parity_cases_passed');
  if (gate) return gate.verdict === Verdict.PASS ? undefined : `its correctness is not known: ${gate.detail}`;
  const { profile = '', absolute, relative } = verify?.tolerance ?? {};
  return STRICT_PROFILES.includes(profile)
    ? undefined
    : `its correctness is not known: verified with ${profile || `atol ${absolute} rtol ${relative}`}; run it with the tolerance parity or strict`;
}
