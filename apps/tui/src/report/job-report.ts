import {
  JobKind,
  Verdict,
  type Job,
  type JobError,
  type JobResult,
  type PrecheckItem,
  type VariantResult,
} from '@flashcore/shared/contract';
import { benchmarkSection } from './benchmark-section.ts';
import { buildSection } from './build-section.ts';
import { findingsSection } from './findings-section.ts';
import { comparisonSection } from './comparison-section.ts';
import type { ReportFormat } from './format.ts';
import { gatesSection } from './gates-section.ts';
import { differenceSection, expectationsSection, planSection } from './plan-section.ts';
import { profileSection } from './profile-section.ts';
import { deviceText, provenanceSection } from './provenance-section.ts';
import { heading, labelled, paragraph, printable } from './text.ts';
import { outcomeStyle, outcomeText, verdictText } from './verdicts.ts';
import { verifySection } from './verify-section.ts';

/** An ended job with all that it found out. */
export interface EndedJob {
  readonly job: Job;
  readonly result: JobResult | undefined;
  readonly error?: JobError;
}

/** The whole report of an ended job, a line an element; the last line has the outcome and the job's name. */
export function jobReport(ended: EndedJob, format: ReportFormat): string[] {
  const { result } = ended;
  const sections = [
    header(ended, format),
    result ? planSection(result, format) : [],
    result ? prechecks(result.prechecks, format) : [],
    ...(result?.variants ?? []).flatMap((variant, _, all) => variantSections(variant, all.length > 1, format)),
    result ? expectationsSection(result.expectations, format) : [],
    result ? provenanceSection(result, format) : [],
    footer(ended, format),
  ];
  return sections.filter((lines) => lines.length > 0).flatMap((lines, i) => (i === 0 ? lines : ['', ...lines]));
}

const KINDS: Partial<Record<JobKind, string>> = {
  [JobKind.BUILD]: 'build',
  [JobKind.VERIFY]: 'verification',
  [JobKind.BENCHMARK]: 'benchmark',
  [JobKind.PROFILE]: 'profile',
  [JobKind.EXPERIMENT]: 'experiment',
  [JobKind.TUNE]: 'search over variants',
};

/** "experiment", "benchmark" …: what a job does. */
export const kindText = (kind: JobKind): string => KINDS[kind] ?? 'job';

function header({ job, result }: EndedJob, format: ReportFormat): string[] {
  const device = result?.provenance?.device;
  return [
    ...heading(printable(job.label || job.kernelId), kindText(job.kind), format),
    ...labelled('device', device ? deviceText(device) : job.deviceId || 'none', format),
  ];
}

function prechecks(items: readonly PrecheckItem[], format: ReportFormat): string[] {
  if (items.length === 0) return [];
  return [
    ...heading('Go/no-go', '', format),
    ...items.flatMap((item) => labelled(item.check, `${verdictText(item.verdict)}: ${item.detail}`, format)),
  ];
}

function variantSections(variant: VariantResult, severalVariants: boolean, format: ReportFormat): string[][] {
  const title = variant.fallback ? 'the fallback beside the variant asked for' : 'the variant asked for';
  return [
    severalVariants ? heading(`== ${variant.label} ==`, title, format) : [],
    variant.build ? buildSection(variant.build, format) : [],
    variant.verify ? verifySection(variant.verify, format) : [],
    ...variant.benchmarks.map((benchmark) => benchmarkSection(benchmark, format)),
    variant.comparison ? comparisonSection(variant.comparison, format) : [],
    variant.profile ? profileSection(variant.profile, format) : [],
    variant.difference ? differenceSection(variant.difference, format) : [],
    ...gateSections(variant, format),
    findingsSection(variant.findings, format),
  ];
}

/** Of a kernel that does not compile only what could be evaluated all the same. */
function gateSections({ build, gates }: VariantResult, format: ReportFormat): string[][] {
  if (build === undefined || build.succeeded) return [gatesSection(gates, format)];
  const answered = gates.filter(({ verdict }) => verdict === Verdict.PASS || verdict === Verdict.FAIL);
  const open = gates.length - answered.length;
  const words = `${open} gate${open === 1 ? ' was' : 's were'} not evaluated: the kernel does not compile`;
  return [gatesSection(answered, format), open === 0 ? [] : paragraph(words, format, 0, 'dim')];
}

function footer({ job, error }: EndedJob, format: ReportFormat): string[] {
  return [
    ...(error ? paragraph(`${error.reason}: ${error.message}`, format, 0, 'red') : []),
    ...(job.summary && job.summary !== error?.message ? paragraph(job.summary, format, 0) : []),
    `${format.style(outcomeStyle(job.outcome), outcomeText(job.outcome))}  ${job.name}`,
  ];
}
