import {
  COST_FINDINGS,
  ComparisonVerdict,
  FindingKind,
  Outcome,
  timingModeName,
  Verdict,
  allProbes,
  parityCounts,
  parityText,
  type GateResult,
  type JobResult,
  type Ranking,
  type VariantResult,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { formatCount, formatError } from '@flashcore/shared/text';

/** One line that tells people why a job ended as it did. */
export function summaryOf(outcome: Outcome, { prechecks, variants, plan, fellBack, ranking }: JobResult): string {
  const refused = prechecks.find(({ verdict }) => verdict === Verdict.FAIL);
  if (refused) return `Precheck failed: ${refused.check}: ${refused.detail}`;
  const asked = variants[0];
  if (!asked) return Outcome[outcome];
  if (fellBack !== undefined) return `FELL BACK: ${fellBack}`;
  const finding = asked.findings.find(({ kind }) => !COST_FINDINGS.has(kind));
  if (finding && outcome !== Outcome.PASSED) return `${FindingKind[finding.kind]}: ${finding.message}`;
  return [
    buildText(asked),
    verifyText(asked),
    benchmarkText(asked),
    comparisonText(asked),
    profileText(asked),
    gatesText(asked.gates, plan?.name ?? ''),
    notRankedText(ranking),
  ]
    .filter((text) => text !== '')
    .join('; ');
}

/** For example "not ranked: client gates"; empty for a ranked run and for jobs other than experiments. */
const notRankedText = (ranking: Ranking | undefined): string =>
  ranking === undefined || ranking.ranked ? '' : `not ranked: ${ranking.reasons.join(', ')}`;

function buildText({ build, verify }: VariantResult): string {
  if (!build || verify) return '';
  const { entries } = build;
  const [entry] = entries;
  const registers = Math.max(...entries.map(({ registersPerThread }) => registersPerThread));
  const bytes = Math.max(...entries.map(({ staticSmemBytes, dynamicSmemBytes }) => staticSmemBytes + dynamicSmemBytes));
  const among = entries.length > 1 ? `, the most of ${entries.length} entries,` : '';
  const resources = entry
    ? `${registers} registers, ${formatCount(bytes)} B shared memory${among} on ${entry.arch}`
    : (build.entriesMissing ?? 'no entry');
  return `built${build.cacheHit ? ' (from the cache)' : ` in ${build.seconds.toFixed(1)} s`}: ${resources}`;
}

function verifyText({ verify }: VariantResult): string {
  if (!verify) return '';
  const most = Math.max(0, ...verify.cases.map(({ maxAbsError }) => maxAbsError));
  const ofCases = allProbes(verify).length > 0 ? ' of the cases' : '';
  return `${parityText(parityCounts(verify))} correct, largest error${ofCases} ${formatError(most)}`;
}

function benchmarkText({ benchmarks }: VariantResult): string {
  const first = benchmarks[0];
  if (!first?.latency) return '';
  if (first.simulated) return 'timed on the emulator (no GPU time)';
  const mode = timingModeName(first.mode);
  const place = `${mode === undefined ? '' : ` ${mode}`}${first.shape ? ` at ${formatShape(first.shape)}` : ''}`;
  return first.valid
    ? `p50 ${first.latency.p50Us.toFixed(2)} us${place}`
    : `no valid time${place}: ${first.invalidReason ?? 'no reason given'}`;
}

function comparisonText({ comparison }: VariantResult): string {
  if (!comparison) return '';
  const against = `against ${comparison.champion?.label ?? 'the champion'}`;
  const answer = (ComparisonVerdict[comparison.verdict] ?? '').toLowerCase().replaceAll('_', ' ');
  return `${against}: ${answer}, ${comparison.reason}`;
}

function profileText({ profile, verify }: VariantResult): string {
  return profile && !verify ? (profile.reason ?? profile.bottleneck ?? '') : '';
}

/**
 * For example "plan merge: 3 of 4 hard gates passed". Only hard gates can reject, so failed gates of level "warn" are
 * counted separately. Missing documentation is left out: it may be handed in later, and the summary stays.
 */
function gatesText(gates: readonly GateResult[], plan: string): string {
  if (gates.length === 0) return '';
  const hard = gates.filter(({ level }) => level === 'hard');
  const of = (verdict: Verdict): GateResult[] => hard.filter((gate) => gate.verdict === verdict);
  const [failed, unknown, undocumented] = [of(Verdict.FAIL), of(Verdict.NOT_MEASURED), of(Verdict.NOT_JUDGED)];
  const modelled = [...of(Verdict.PASS), ...failed].filter((gate) => gate.modelled);
  const warnings = gates.filter(({ verdict, level }) => verdict === Verdict.FAIL && level === 'warn').length;
  return [
    // A job in which no gate failed has passed, so "0 of 1 passed" would contradict its outcome.
    failed.length === 0 && unknown.length + undocumented.length > 0
      ? `plan ${plan}: no hard gate failed${unknown.length === 0 ? '' : `, ${unknown.length} of ${hard.length} not measured (${gateTitles(unknown)})`}`
      : `plan ${plan}: ${of(Verdict.PASS).length} of ${hard.length} hard ${hard.length === 1 ? 'gate' : 'gates'} passed`,
    ...(failed.length > 0 ? [`rejected by ${gateTitles(failed)}`] : []),
    ...(modelled.length > 0 ? [`modelled: ${gateTitles(modelled)}`] : []),
    ...(failed.length > 0 && unknown.length > 0 ? [`not measured: ${gateTitles(unknown)}`] : []),
    // A failed gate of level "warn" rejects nothing, so it must be mentioned next to "passed".
    ...(warnings > 0 ? [`${warnings} ${warnings === 1 ? 'warning' : 'warnings'}`] : []),
  ].join(', ');
}

/** The titles of gates, as in every table of gates. They are quoted, because a title may contain a comma. */
export const gateTitles = (gates: readonly GateResult[]): string =>
  gates.map(({ title, gateId }) => `"${title || gateId}"`).join(', ');
