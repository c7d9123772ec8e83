/** A result as JUnit XML, which every CI system shows: build, findings, cases and gates of each variant. */
import {
  COST_FINDINGS,
  FindingKind,
  Outcome,
  Verdict,
  type GateResult,
  type SdpaComparison,
  type VariantResult,
} from '@flashcore/shared/contract';
import { formatCase } from '@flashcore/shared/kernels';
import { entryOf, plainText } from '@flashcore/shared/text';

interface TestCase {
  readonly group: string;
  readonly name: string;
  readonly seconds?: number;
  readonly failure?: string;
  readonly skipped?: string;
  readonly output?: string;
}

/** An ended job, with its findings or the reason why it could not run. */
interface JunitJob {
  readonly label: string;
  readonly variants: readonly VariantResult[];
  readonly error?: string;
}

/** True if the job has no result because it was stopped or the runner could not find out. */
export const couldNotRun = (outcome: Outcome | undefined): boolean =>
  outcome === Outcome.ERROR || outcome === Outcome.INTERRUPTED || outcome === Outcome.CANCELLED;

/**
 * One suite for each variant. Only problems that fail the job are failures. A failed gate of level "warn" is printed in
 * the case's output. A job that could not run has an error.
 */
export const junitOf = (label: string, job: Omit<JunitJob, 'label'>): string => junitOfJobs([{ label, ...job }]);

export function junitOfJobs(jobs: readonly JunitJob[]): string {
  const suites = jobs.flatMap(({ label, variants, error }) => [
    ...variants.map((variant) => suiteOf(label, variant)),
    ...(error === undefined ? [] : [errorSuite(label, error)]),
  ]);
  const name = jobs.map(({ label }) => label).join(', ');
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="${escape(name)}">\n${suites.join('')}</testsuites>\n`;
}

const errorSuite = (label: string, error: string): string =>
  `  <testsuite name="${escape(label)}" tests="1" failures="0" errors="1" skipped="0">\n    <testcase classname="job" name="runs"><error message="${escape(error.split('\n')[0] ?? '')}">${escape(error)}</error></testcase>\n  </testsuite>\n`;

function suiteOf(label: string, variant: VariantResult): string {
  const cases = [
    ...buildCases(variant),
    ...findingCases(variant),
    ...verifyCases(variant),
    ...variant.gates.filter(({ level }) => level !== 'off').map(gateCase),
  ];
  const count = (has: (one: TestCase) => unknown): number => cases.filter((one) => has(one) !== undefined).length;
  const name = `${label}${variant.fallback ? ` (beside it: ${variant.label})` : ''}`;
  return `  <testsuite name="${escape(name)}" tests="${cases.length}" failures="${count(({ failure }) => failure)}" errors="0" skipped="${count(({ skipped }) => skipped)}">\n${cases.map(caseXml).join('')}  </testsuite>\n`;
}

function buildCases({ build }: VariantResult): TestCase[] {
  if (build === undefined) return [];
  const errors = build.diagnostics
    .filter(({ severity }) => severity === 'error')
    .map(({ file, line, message }) => `${file}:${line}: ${message}`);
  return [
    {
      group: 'build',
      name: `compiles for ${build.arch}`,
      seconds: build.seconds,
      ...(!build.succeeded && { failure: errors.join('\n') || 'does not compile' }),
    },
  ];
}

const findingCases = ({ findings }: VariantResult): TestCase[] =>
  findings.map(({ kind, message, remedy }) => ({
    group: 'findings',
    name: (FindingKind[kind] ?? 'FINDING').toLowerCase(),
    [COST_FINDINGS.has(kind) ? 'output' : 'failure']: `${message}${remedy === '' ? '' : `\n${remedy}`}`,
  }));

const verifyCases = ({ verify }: VariantResult): TestCase[] =>
  (verify?.cases ?? []).map(({ shape, verdict, reason, seconds, maxAbsError, sdpa }) => ({
    group: 'verify',
    name: shape === undefined ? 'case' : formatCase(shape),
    seconds,
    ...(verdict === Verdict.FAIL && { failure: reason }),
    ...(verdict === Verdict.NOT_MEASURED && { skipped: reason ?? 'not measured' }),
    output: [
      `largest error ${maxAbsError}`,
      ...sdpa.filter(({ missing }) => missing === undefined).map(besideSdpa),
    ].join('\n'),
  }));

const besideSdpa = ({
  backend,
  maxAbsDifference,
  maxAbsError,
  meanAbsError,
  sdpaMaxAbsError,
  sdpaMeanAbsError,
}: SdpaComparison): string =>
  `${backend}: largest difference ${maxAbsDifference}; largest error ${maxAbsError}, its own ${sdpaMaxAbsError}; mean error ${meanAbsError}, its own ${sdpaMeanAbsError}`;

function gateCase(gate: GateResult): TestCase {
  const { gateId, title, verdict, value, comparison, target, unit, level, detail, modelled } = gate;
  const told = `${value === undefined ? 'not measured' : `${value} ${unit}`}${modelled ? ' (modelled)' : ''}, wanted ${comparison} ${target} ${unit}${detail === '' ? '' : `; ${detail}`}`;
  return {
    group: 'gates',
    name: `${gateId}: ${title}`,
    ...(verdict === Verdict.FAIL && level === 'hard' && { failure: told }),
    ...((verdict === Verdict.NOT_MEASURED || verdict === Verdict.NOT_JUDGED) && { skipped: detail || 'not measured' }),
    output: verdict === Verdict.FAIL && level !== 'hard' ? `warning: ${told}` : told,
  };
}

function caseXml({ group, name, seconds, failure, skipped, output }: TestCase): string {
  const inner = [
    failure === undefined
      ? ''
      : `<failure message="${escape(failure.split('\n')[0] ?? '')}">${escape(failure)}</failure>`,
    skipped === undefined ? '' : `<skipped message="${escape(skipped)}"/>`,
    output === undefined ? '' : `<system-out>${escape(output)}</system-out>`,
  ].join('');
  return `    <testcase classname="${group}" name="${escape(name)}"${seconds === undefined ? '' : ` time="${seconds.toFixed(3)}"`}>${inner}</testcase>\n`;
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', '\n': '&#10;' };

/** Removes escape sequences and characters that XML 1.0 cannot represent. */
const escape = (text: string): string =>
  plainText(text)
    .replace(/[\ufffe\uffff]/g, '')
    .replace(/[&<>"\n]/g, (character) => entryOf(ENTITIES, character) ?? character);
