/** A job's findings as short texts that a model or a person can act on. */
import {
  FindingKind,
  TimingMode,
  Verdict,
  type BenchmarkResult,
  type CaseResult,
  type ErrorMap,
  type Finding,
  type GateResult,
  type JobResult,
  type VariantResult,
  parityCounts,
  parityText,
  type TuneResult,
  type TunedVariant,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { formatBytes, formatInUnit } from '../present/numbers.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import { boundText } from '../present/sections/counters.ts';
import { inputsText, locationText } from '../present/sections/findings.ts';
import { plainLines } from '../present/plain/plain-painter.ts';
import { tuneBlocks } from '../present/sections/tuned.ts';

const CUT = '\n… cut';
const TOP_FINDINGS = 3;
const TOP_DIAGNOSTICS = 20;

/** Foreign text without control characters, of at most `bytes` bytes in UTF-8. */
export function bounded(text: string, bytes: number): string {
  const clean = text.split('\n').map(sanitize).join('\n');
  if (Buffer.byteLength(clean) <= bytes) return clean;
  // A character that was cut in half decodes to U+FFFD, which is removed.
  const room = bytes - Buffer.byteLength(CUT);
  return `${Buffer.from(clean)
    .subarray(0, room)
    .toString('utf8')
    .replace(/\uFFFD+$/, '')}${CUT}`;
}

export interface Judged {
  readonly result: JobResult | undefined;
  readonly variant: VariantResult | undefined;
  readonly correct: boolean;
  readonly required: readonly string[];
  /** Gates of the plan that rejected the candidate. */
  readonly rejecting: readonly GateResult[];
  /** The job's summary line. */
  readonly summary: string;
  readonly timedOut: boolean;
}

/** The failure of an incorrect candidate, or the speed of a correct one with the profiler's advice. */
export function feedbackText({ result, variant, correct, required, rejecting, summary, timedOut }: Judged): string {
  const failedChecks = (result?.prechecks ?? []).filter(({ verdict }) => verdict === Verdict.FAIL);
  const lines = [
    ...(timedOut ? [`The job ran into its time limit: ${summary}`] : []),
    ...failedChecks.map(({ check, detail }) => `Refused before the build, ${check}: ${detail}`),
    ...(variant?.findings ?? []).slice(0, TOP_FINDINGS).map(findingText),
    ...rejecting.map(({ title, gateId, detail }) => `Rejected by the gate "${title || gateId}": ${detail}`),
    ...(correct ? rightLines(variant) : wrongLines(variant, required)),
  ];
  return lines.length === 0 ? summary : lines.join('\n\n');
}

/** Name, message, place, threads and remedy of a finding. */
export function findingText(finding: Finding): string {
  const { kind, message, location, shape, threads, cudaError, remedy } = finding;
  const places = [...new Set(threads.map(({ place }) => place).filter(Boolean))].slice(0, 4);
  return [
    `${FindingKind[kind] ?? `FINDING ${kind}`}: ${message}`,
    location ? `where: ${locationText(location)}` : '',
    places.length > 0 ? `threads: ${places.join('; ')}` : '',
    shape ? `case: ${formatShape(shape)}` : '',
    finding.inputs.length > 0 ? `inputs: ${inputsText(finding)}` : '',
    cudaError ? `CUDA: ${cudaError}` : '',
    remedy ? `remedy: ${remedy}` : '',
  ]
    .filter(Boolean)
    .join('\n');
}

/** A missed gate: its value and the target. */
export function gateText({ title, value, comparison, target, unit, level, modelled }: GateResult): string {
  const found = value === undefined ? '?' : formatInUnit(value, unit);
  return `${title}: ${found}${modelled ? ' (modelled)' : ''}, wanted ${comparison} ${formatInUnit(target, unit)} (${level})`;
}

function wrongLines(variant: VariantResult | undefined, required: readonly string[]): string[] {
  const cases = variant?.verify?.cases ?? [];
  const refused = cases.filter(
    ({ verdict, shape }) => verdict === Verdict.NOT_MEASURED && shape && required.includes(formatShape(shape)),
  );
  const errors = (variant?.build?.diagnostics ?? []).filter(({ severity }) => severity === 'error');
  return [
    ...(variant?.build?.succeeded === false && variant.findings.length === 0
      ? [errors.slice(0, TOP_DIAGNOSTICS).map(diagnosticText).join('\n')]
      : []),
    ...refused.map(
      ({ shape, reason }) => `${formatShape(shape!)} must be computed and was not: ${reason ?? 'no reason given'}`,
    ),
    ...(variant?.verify ? [`${parityText(parityCounts(variant.verify))} pass.`] : []),
    ...heldOutLines(variant),
  ];
}

function rightLines(variant: VariantResult | undefined): string[] {
  const timed = timedText(variant?.benchmarks.find(({ mode }) => mode === TimingMode.HOT));
  const comparison = variant?.comparison;
  const profile = variant?.profile;
  return [
    timed,
    ...(comparison ? [`Against ${comparison.champion?.label ?? 'the champion'}: ${comparison.reason}.`] : []),
    ...heldOutLines(variant),
    ...(profile === undefined || boundText(profile) === '' ? [] : [boundText(profile)]),
    ...(profile?.advice ?? []).slice(0, TOP_FINDINGS).map(({ text, evidence }) => `${text} (${evidence})`),
  ];
}

function timedText(hot: BenchmarkResult | undefined): string {
  if (!hot || hot.simulated) return 'Right. Not timed: the emulator gives no GPU times.';
  if (!hot.valid) return `Right. Not timed: the measurement is not valid, ${hot.invalidReason ?? 'no reason given'}.`;
  return `Right. ${hot.latency?.p50Us.toPrecision(4)} us (median, hot) on ${formatShape(hot.shape!)}.`;
}

/** Contains only the verdict, because a proposer that saw shapes or figures could fit its code to them. */
const heldOutLines = (variant: VariantResult | undefined): string[] =>
  variant?.heldOut
    ? [`On shapes that are not shown, which must be computed as well and not slower, ${variant.heldOut.detail}.`]
    : [];

interface DiagnosticFacts {
  severity: string;
  file: string;
  line: number;
  message: string;
  tool: string;
}

const diagnosticText = (of: DiagnosticFacts): string =>
  `${of.tool} ${of.severity}${of.file ? ` ${of.file}${of.line > 0 ? `:${of.line}` : ''}` : ''}: ${of.message}`;

/** The compiler's messages, then ptxas's report on each entry. */
export function compilerText({ build }: VariantResult): string {
  if (!build) return '';
  return [
    ...build.diagnostics.slice(0, 2 * TOP_DIAGNOSTICS).map(diagnosticText),
    ...build.entries.map(
      (entry) =>
        `ptxas ${entry.arch} ${entry.entry}: ${entry.registersPerThread} registers, ${entry.staticSmemBytes + entry.dynamicSmemBytes} bytes of shared memory, ${entry.spillStoreBytes} bytes spilled, ${entry.ctasPerSm} CTAs/SM (${entry.occupancyLimiter ?? 'limiter unknown'})`,
    ),
    build.entriesMissing && `ptxas: not measured: ${build.entriesMissing}`,
  ]
    .filter(Boolean)
    .join('\n');
}

/** One line per case. */
export function verifyText({ verify }: VariantResult): string {
  const { cases = [], probes = [], drawn = [] } = verify ?? {};
  return [
    ...cases.flatMap((each) => caseLines(each, '')),
    ...probes.flatMap((each) => caseLines(each, 'probe ')),
    ...drawn.flatMap((each) => caseLines(each, 'drawn ')),
  ].join('\n');
}

function caseLines(
  { shape, verdict, reason, maxAbsError, seeds, inputs, errorMap }: CaseResult,
  kind: string,
): string[] {
  const name = `${kind}${shape ? formatShape(shape) : '?'} ${Verdict[verdict]}`;
  const why = reason ? `: ${reason}` : '';
  if (verdict === Verdict.NOT_MEASURED) return [`${name}${why}`];
  const failing = inputs.filter((input) => input.verdict === Verdict.FAIL);
  return [
    `${name} max |error| ${maxAbsError.toPrecision(3)} over ${seeds} seeds${why}`,
    ...(failing.length > 0 ? [`  wrong on: ${failing.map(({ distribution }) => distribution).join(', ')}`] : []),
    ...(verdict === Verdict.FAIL && errorMap ? placesOf(errorMap) : []),
  ];
}

/** Where the errors are, for a reader who can't see the error map. */
function placesOf({ rows, columns, blockRows, blockColumns, maxAbsError }: ErrorMap): string[] {
  const largest = (count: number, size: number, isIn: (block: number, index: number) => boolean): string =>
    Array.from({ length: count }, (_, block) => {
      const errors = maxAbsError.filter((_error, index) => isIn(block, index));
      const most = errors.some(Number.isNaN) ? NaN : Math.max(...errors);
      return `${block * size}: ${most.toPrecision(2)}`;
    }).join(', ');
  return [
    `  largest |error| in ${blockRows} rows from ${largest(rows, blockRows, (block, index) => Math.floor(index / columns) === block)}`,
    `  largest |error| in ${blockColumns} columns from ${largest(columns, blockColumns, (block, index) => index % columns === block)}`,
  ];
}

/** Counters, stalls and advice; if nothing was measured, the reason. */
export function profileText({ profile }: VariantResult): string {
  if (!profile) return '';
  if (profile.metrics.length === 0) return `not measured: ${profile.reason ?? 'no reason given'}`;
  return [
    ...profile.metrics.map(({ name, value, unit }) => `${name} ${value.toPrecision(4)} ${unit}`.trim()),
    ...(profile.reason ? [`missing: ${profile.reason}`] : []),
    ...profile.stalls
      .slice(0, TOP_FINDINGS)
      .map(({ name, value, unit }) => `stall ${name} ${value.toPrecision(3)} ${unit}`.trim()),
    ...profile.advice.map(({ text, evidence }) => `${text} (${evidence})`),
  ].join('\n');
}

/** A line with the current state of a variant. */
export function variantLine(row: TunedVariant): string {
  const { label, registers, smemBytes, verified, dropped, reused } = row;
  if (dropped !== undefined) return `${label}: dropped: ${dropped}`;
  const resources = `${registers} registers, ${formatBytes(smemBytes)} shared`;
  if (verified === Verdict.NOT_MEASURED) return `${label}: ${registers > 0 ? resources : 'built'}`;
  const known = reused ? ' (known from before)' : '';
  return `${label}: right, ${row.p50Us === undefined ? resources : `${row.p50Us.toPrecision(4)} us`}${known}`;
}

const FORMAT = { width: 100, uncut: true, colors: false, ascii: false } as const;

/** The table of a search as text for programs. */
export const tuneText = (tune: TuneResult): string[] => plainLines(tuneBlocks(tune), FORMAT);
