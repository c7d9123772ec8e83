/** The whole report of an ended job; its last line has the outcome and the job's name. */
import {
  ComparisonVerdict,
  HeldOutVerdict,
  JobKind,
  Outcome,
  Verdict,
  type HeldOutResult,
  type Job,
  type JobError,
  type JobResult,
  type PrecheckItem,
  type VariantResult,
} from '@flashcore/shared/contract';
import { fact, facts, heading, notice, type Block } from '../blocks.ts';
import { counted } from '../numbers.ts';
import { KIND_WORDS, SIMULATED_TEXT, VERDICT_MARKS, jobMark, outcomeWord, summaryText } from '../words.ts';
import { verifyBlocks } from './cases.ts';
import { comparisonBlocks } from './comparison.ts';
import { differenceBlocks, expectationsBlocks, planBlocks } from './plan.ts';
import { profileBlocks } from './counters.ts';
import { findingsBlocks } from './findings.ts';
import { gatesBlocks } from './gates.ts';
import { linesBlocks } from './lines.ts';
import { phaseTimeBlocks } from './phase-times.ts';
import { deviceText, provenanceBlocks } from './provenance.ts';
import { buildBlocks } from './build.ts';
import { sdpaAloneBlocks } from './sdpa-alone.ts';
import { timingBlocks } from './timings.ts';
import { tuneBlocks } from './tuned.ts';

/** An ended job with all its findings. */
export interface EndedJob {
  readonly job: Job;
  readonly result: JobResult | undefined;
  readonly error?: JobError;
}

interface ReportParts {
  /** True to include the counters of each source line. */
  readonly lines?: boolean | undefined;
}

export function jobBlocks(ended: EndedJob, parts: ReportParts = {}): Block[] {
  const { result } = ended;
  const variants = result?.variants ?? [];
  return [
    ...headBlocks(ended),
    ...(result ? planBlocks(result) : []),
    ...(result ? precheckBlocks(result.prechecks) : []),
    ...variants.flatMap((variant) => [
      ...(variants.length > 1 ? [variantHeading(variant)] : []),
      ...variantBlocks(variant, parts),
    ]),
    ...(result ? sdpaAloneBlocks(result.sdpaBenchmarks) : []),
    ...(result?.tune ? tuneBlocks(result.tune) : []),
    ...(result ? expectationsBlocks(result.expectations) : []),
    ...(result ? phaseTimeBlocks(ended.job, result) : []),
    ...(result ? provenanceBlocks(result) : []),
    ...footBlocks(ended),
  ];
}

function headBlocks({ job, result }: EndedJob): Block[] {
  const device = result?.provenance?.device;
  return [
    heading(job.label || job.kernelId, KIND_WORDS[job.kind]),
    facts(fact('device', device ? deviceText(device) : job.deviceId || 'none')),
    ...(isTimedOnEmulator(result) ? [notice(SIMULATED_TEXT, 'warn')] : []),
  ];
}

const isTimedOnEmulator = (result: JobResult | undefined): boolean =>
  result?.variants.some(
    ({ benchmarks, comparison }) => benchmarks.some(({ simulated }) => simulated) || comparison?.simulated,
  ) ?? false;

function precheckBlocks(items: readonly PrecheckItem[]): Block[] {
  if (items.length === 0) return [];
  return [
    heading('Precheck'),
    facts(...items.map(({ check, verdict, detail }) => fact(check, `${VERDICT_MARKS[verdict].word}: ${detail}`))),
  ];
}

const variantHeading = ({ label, fallback }: VariantResult): Block =>
  heading(`== ${label} ==`, fallback ? 'the fallback of the variant asked for' : 'the variant asked for');

function variantBlocks(variant: VariantResult, parts: ReportParts): Block[] {
  return [
    ...(variant.build ? buildBlocks(variant.build) : []),
    ...(variant.verify ? verifyBlocks(variant.verify) : []),
    ...(variant.comparison ? comparisonBlocks(variant.comparison) : []),
    ...timingBlocks(variant.benchmarks),
    ...(variant.heldOut ? [heldOutNotice(variant.heldOut)] : []),
    ...(variant.profile ? profileBlocks(variant.profile) : []),
    ...(variant.profile && parts.lines ? linesBlocks(variant.profile) : []),
    ...(variant.difference ? differenceBlocks(variant.difference) : []),
    ...gateBlocksOf(variant),
    ...findingsBlocks(variant.findings),
  ];
}

/** Contains only the verdict, because the held-out shapes must stay secret. */
const heldOutNotice = ({ verdict, detail, shapes }: HeldOutResult): Block =>
  notice(
    `${detail} (${counted(shapes, 'shape')} that the runner keeps to itself)`,
    verdict === HeldOutVerdict.WRONG ? 'bad' : 'text',
  );

/** The gates; if the kernel does not compile, only those that have an answer. */
function gateBlocksOf({ build, gates }: VariantResult): Block[] {
  if (build === undefined || build.succeeded) return gatesBlocks(gates);
  const answered = gates.filter(({ verdict }) => verdict === Verdict.PASS || verdict === Verdict.FAIL);
  const open = gates.length - answered.length;
  const words = `${open} gate${open === 1 ? ' was' : 's were'} not evaluated: the kernel does not compile`;
  return [...gatesBlocks(answered), ...(open === 0 ? [] : [notice(words, 'dim')])];
}

function footBlocks(ended: EndedJob): Block[] {
  const { job, error } = ended;
  const { role } = jobMark(job);
  return [
    heading('Result', job.summary === error?.message ? '' : summaryText(job)),
    ...(error ? [notice(`${error.reason}: ${error.message}`, 'bad')] : []),
    { kind: 'outcome', word: `${outcomeWord(job)}${speedRemark(ended)}`, role, job: job.name },
  ];
}

/** Says that a benchmark passed although the speed, which it was to find out, could not be judged. */
function speedRemark({ job, result }: EndedJob): string {
  if (job.kind !== JobKind.BENCHMARK || job.outcome !== Outcome.PASSED) return '';
  const isOpen = (result?.variants ?? []).some(({ benchmarks, comparison }) =>
    comparison === undefined
      ? benchmarks.some(({ simulated }) => simulated)
      : comparison.verdict === ComparisonVerdict.NOT_JUDGED,
  );
  return isOpen ? ', speed not judged' : '';
}
