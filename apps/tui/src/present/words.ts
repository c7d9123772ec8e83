/** Words and marks for the proto's enums, and text for shapes. */
import {
  ComparisonVerdict,
  FindingKind,
  JobKind,
  JobState,
  Outcome,
  Phase,
  TimingMode,
  Verdict,
  type Job,
  type Shape,
  type SdpaReuse,
  type VerifyProgress,
} from '@flashcore/shared/contract';
import { formatCase, formatShape, recordedDtype } from '@flashcore/shared/kernels';
import { EMULATOR_TIMES } from '@flashcore/shared/text';
import { counted, formatElapsed, formatNumber } from './numbers.ts';
import type { Role } from './roles.ts';

export const PHASE_WORDS: Record<Phase, string> = {
  [Phase.UNSPECIFIED]: 'phase',
  [Phase.PRECHECK]: 'precheck',
  [Phase.BUILD]: 'build',
  [Phase.VERIFY]: 'verify',
  [Phase.BENCHMARK]: 'benchmark',
  [Phase.COMPARE]: 'compare',
  [Phase.PROFILE]: 'profile',
  [Phase.GATES]: 'gates',
};

export const KIND_WORDS: Record<JobKind, string> = {
  [JobKind.UNSPECIFIED]: 'job',
  [JobKind.BUILD]: 'build',
  [JobKind.VERIFY]: 'verify',
  [JobKind.BENCHMARK]: 'benchmark',
  [JobKind.PROFILE]: 'profile',
  [JobKind.EXPERIMENT]: 'experiment',
  [JobKind.TUNE]: 'tune',
};

export const MODE_WORDS: Record<TimingMode, string> = {
  [TimingMode.UNSPECIFIED]: '-',
  [TimingMode.COLD]: 'cold',
  [TimingMode.HOT]: 'hot',
};

export const SIMULATED_TEXT = `simulated: ${EMULATOR_TIMES}`;

/** The kind in words: "OUT_OF_BOUNDS" becomes "out of bounds". */
export const findingWord = (kind: FindingKind): string => inWords(FindingKind[kind] ?? 'finding');

const inWords = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll('_', ' ')
    .replace(/\bnan\b/, 'NaN');

/** Findings of a kernel whose output may be right despite the finding, so that "wrong result" would be untrue. */
const NAMES_ITS_STATE: ReadonlySet<string> = new Set([
  FindingKind[FindingKind.RACE],
  FindingKind[FindingKind.UNINITIALISED_READ],
]);

const CODED_SUMMARY = /^([A-Z][A-Z_]+): ([^]*)$/;

/** How a job ended, in words such as "compile failed" or "race". Every screen and report takes the word from here. */
export function outcomeWord(ended: { readonly outcome: Outcome; readonly summary?: string } | undefined): string {
  const { outcome = Outcome.UNSPECIFIED, summary = '' } = ended ?? {};
  const finding = CODED_SUMMARY.exec(summary)?.[1] ?? '';
  if (outcome === Outcome.WRONG_RESULT && NAMES_ITS_STATE.has(finding)) return inWords(finding);
  return inWords(Outcome[outcome] ?? 'ended');
}

/** A variant's parameters; empty for a kernel without parameters, whose label is "default". */
export const variantWord = (label: string): string => (label === 'default' ? '' : label);

/** The running step of a verification: "seed 3/5" of a case, perhaps with its long launch, or "probe 12/33". */
export const runningText = (progress: VerifyProgress): string => {
  const { seedIndex, seedCount, probesDone, probeCount } = progress;
  return seedCount === 0
    ? `probe ${Math.min(probesDone + 1, probeCount)}/${probeCount}`
    : `seed ${seedIndex + 1}/${seedCount}${launchText(progress)}`;
};

function launchText({ blocksBegun, blocks, secondsLeft }: VerifyProgress): string {
  if (blocks === 0n) return '';
  const left = secondsLeft > 0 ? `, about ${formatElapsed(secondsLeft)} left` : '';
  return `, kernel ${(100n * blocksBegun) / blocks} %${left}`;
}

/** A summary for people: "WRONG_RESULT: 3 of …" becomes "wrong result: 3 of …", without repeating the outcome. */
export function summaryText({ summary, outcome }: Pick<Job, 'summary' | 'outcome'>): string {
  const [, name, rest] = CODED_SUMMARY.exec(summary) ?? [];
  if (name === undefined || rest === undefined) return summary;
  const word = inWords(name);
  return word === outcomeWord({ outcome, summary }) ? rest : `${word}: ${rest}`;
}

/** The state and the summary of an ended job, without the state where the summary begins with it. */
export function stateText(job: Pick<Job, 'state' | 'outcome' | 'summary'>, summary = summaryText(job)): string {
  const { word } = jobMark(job);
  return summary.toLowerCase().startsWith(word) || summary === '' ? summary || word : `${word}: ${summary}`;
}

/** A reason for people: "NAN_OUTPUT: all; OUT_OF_BOUNDS on …" becomes "NaN output: all; out of bounds on …". */
export const reasonText = (reason: string): string =>
  reason.replace(/(^|[:;] |\()([A-Z][A-Z_]+)(?=:? )/g, (all, before: string, name: string) =>
    Object.hasOwn(FindingKind, name) ? `${before}${inWords(name)}` : all,
  );

export interface Mark {
  readonly mark: string;
  readonly role: Role;
  readonly word: string;
}

export const VERDICT_MARKS: Record<Verdict, Mark> = {
  [Verdict.UNSPECIFIED]: { mark: '·', role: 'dim', word: '-' },
  [Verdict.PASS]: { mark: '✓', role: 'good', word: 'pass' },
  [Verdict.FAIL]: { mark: '✗', role: 'bad', word: 'FAIL' },
  [Verdict.NOT_MEASURED]: { mark: '○', role: 'dim', word: 'not measured' },
  [Verdict.NOT_JUDGED]: { mark: '○', role: 'dim', word: 'not judged' },
};

export const COMPARISON_MARKS: Record<ComparisonVerdict, Mark> = {
  [ComparisonVerdict.UNSPECIFIED]: { mark: '·', role: 'dim', word: '-' },
  [ComparisonVerdict.FASTER]: { mark: '✓', role: 'good', word: 'faster' },
  [ComparisonVerdict.WITHIN_MARGIN]: { mark: '=', role: 'text', word: 'within the margin' },
  [ComparisonVerdict.SLOWER]: { mark: '✗', role: 'bad', word: 'SLOWER' },
  [ComparisonVerdict.NOT_JUDGED]: { mark: '○', role: 'dim', word: 'not judged' },
};

export function jobMark(job: Pick<Job, 'state' | 'outcome'> & Partial<Pick<Job, 'summary'>>): Mark {
  if (job.state === JobState.QUEUED) return { mark: '·', role: 'dim', word: 'queued' };
  if (job.state === JobState.RUNNING) return { mark: '●', role: 'accent', word: 'running' };
  const word = outcomeWord(job);
  if (job.outcome === Outcome.PASSED) return { mark: '✓', role: 'good', word };
  if (job.outcome === Outcome.CANCELLED || job.outcome === Outcome.INTERRUPTED) return { mark: '○', role: 'dim', word };
  return { mark: '✗', role: 'bad', word };
}

/** A prefix such as "bf16 "; empty for fp16, the default of shapes and of older records without a dtype. */
export const dtypeWord = (dtype: string): string => (recordedDtype(dtype) === 'fp16' ? '' : `${dtype} `);

/** A shape in the form that the command line takes, such as "2x8x512x64c"; "-" if there is none. */
export const shapeShort = (shape: Shape | undefined): string => (shape === undefined ? '-' : formatShape(shape));

/** A shape with the name of its case; "-" if there is none. */
export const caseText = (shape: Shape | undefined): string => (shape === undefined ? '-' : formatCase(shape));

/** Text such as "not measured: …", made from a reason that the runner gave. */
export const notMeasured = (reason: string | undefined): string =>
  reason ? `not measured: ${reasonText(reason)}` : 'not measured, and the runner gives no reason';

/** The word for the verdict, then the reason. */
export const comparisonAnswer = ({ verdict, reason }: ComparisonAnswer): string =>
  `${COMPARISON_MARKS[verdict].word}: ${reason}`;

export interface ComparisonAnswer {
  readonly verdict: ComparisonVerdict;
  readonly reason: string;
}

/** The first eight digits of a job's UUID, enough to distinguish jobs on a screen. */
export const shortName = (job: string): string => job.replace(/^jobs\//, '').slice(0, 8);

/** Replaces whole job names in a text by their first eight digits. */
export const withShortNames = (text: string): string => text.replace(/jobs\/[0-9a-f]{8}-[0-9a-f-]{27}/g, shortName);

/** A job's kernel and parameters, or the job's short name if those are not known. */
export const jobTitle = (job: Pick<Job, 'label' | 'kernelId' | 'name'>): string =>
  job.label || job.kernelId || shortName(job.name);

/** A job's title and short name, where jobs of one title must be told apart: "my_kernel BLOCK_Q=32 (1a2b3c4d)". */
export const namedJob = (job: Pick<Job, 'label' | 'kernelId' | 'name'>): string =>
  job.label || job.kernelId ? `${jobTitle(job)} (${shortName(job.name)})` : shortName(job.name);

/** Names a series of samples: "2x8x512x64 HOT candidate". */
export const benchmarkKey = (shape: Shape | undefined, mode: TimingMode, subject: string): string =>
  `${shapeShort(shape)} ${TimingMode[mode]} ${subject}`;

/**
 * Explains that an SDPA figure comes from another job: "figure of jobs/x, checked with 9 samples: +0.3 % of at most 1.5
 * %".
 */
export const reuseText = ({ job, checkSamples, drift, driftLimit }: SdpaReuse): string =>
  `figure of ${job}, checked with ${counted(checkSamples, 'sample')}: ${drift < 0 ? '-' : '+'}${formatNumber(Math.abs(100 * drift))} % of at most ${formatNumber(100 * driftLimit)} %`;
