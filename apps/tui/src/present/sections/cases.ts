/** Correctness: the cases with their errors against the fp64 reference, and the reasons for failures. */
import {
  Verdict,
  type CaseResult,
  type ElementError,
  type OutputResult,
  type RoundingError,
  type Tolerance,
  type VerifyResult,
  parityCounts,
  parityText,
  allProbes,
} from '@flashcore/shared/contract';
import { fact, heading, notice, plot, tableOf, type Block, type Column, type Fact } from '../blocks.ts';
import { formatCount, formatError, formatNumber, formatPair, formatSeconds } from '../numbers.ts';
import { marked, piece, type Piece, type Role } from '../roles.ts';
import { VERDICT_MARKS, caseText, reasonText, shapeShort } from '../words.ts';
import { caseColumns, sharedBlocks } from './case-columns.ts';
import { sdpaBlocks } from './sdpa.ts';

const figure =
  (value: (result: CaseResult) => string, role?: (result: CaseResult) => Role | undefined) =>
  (result: CaseResult): Piece =>
    result.verdict === Verdict.NOT_MEASURED ? piece('-', 'dim') : piece(value(result), role?.(result));

/** False if no element is finite. Errors cover finite elements only, so an error of 0 would then look perfect. */
export const hasFinite = ({ nanCount, infCount, elements }: CaseResult): boolean => nanCount + infCount < elements;

const ofError = (value: (result: CaseResult) => string) =>
  figure((result) => (hasFinite(result) ? value(result) : '-'));
const error = (value: (result: CaseResult) => number) => ofError((result) => formatError(value(result)));

const counting = (count: (result: CaseResult) => bigint) =>
  figure(
    (result) => (result.elements === 0n ? '-' : formatCount(count(result))),
    (result) => (count(result) > 0n ? 'bad' : undefined),
  );

/** The error as a share of the tolerance, such as "6 %" or "7,800 %"; empty for a result from an older runner. */
export function limitText(result: CaseResult): string {
  const { worstOfLimit } = result;
  return worstOfLimit === undefined || isWithinLimit(result) ? '' : shareOfLimit(worstOfLimit);
}

/** Always in percent, so that the rows of a column compare at a glance; at most 7 cells. */
function shareOfLimit(share: number): string {
  const percent = share * 100;
  if (percent >= 9_999.5) return `${percent.toExponential(1).replace('+', '')} %`;
  return `${percent < 10 ? percent.toFixed(1) : formatCount(Math.round(percent))} %`;
}

/** True for a failed case whose worst element is within its limit. Its share of the limit would look like a pass. */
export const isWithinLimit = ({ verdict, worstOfLimit }: CaseResult): boolean =>
  verdict === Verdict.FAIL && worstOfLimit !== undefined && worstOfLimit <= 1;

// The kernel's largest error divided by the error of attention computed in plain arithmetic of the tensors' dtype.
// FlashAttention's rule requires at most 2.
const plainRatio = (result: CaseResult): string =>
  result.fp16MaxAbsError > 0 ? `${formatNumber(result.maxAbsError / result.fp16MaxAbsError, 3)}x` : '-';

const LIMIT_COLUMN: Column<CaseResult> = {
  title: 'of limit',
  align: 'right',
  drop: 0.2,
  cell: ofError((result) => limitText(result) || '-'),
};

/** All columns except the case's name and verdict. */
export function errorColumns(results: readonly CaseResult[]): readonly Column<CaseResult>[] {
  const [largest, ...others] = ERROR_COLUMNS;
  return results.some((result) => limitText(result) !== '') ? [largest, LIMIT_COLUMN, ...others] : ERROR_COLUMNS;
}

/** The one name of a case's largest |out - reference|, in tables, summaries and reports. */
export const LARGEST_ERROR = 'largest error';

const ERROR_COLUMNS: readonly [Column<CaseResult>, ...Column<CaseResult>[]] = [
  { title: LARGEST_ERROR, align: 'right', cell: error(({ maxAbsError }) => maxAbsError) },
  { title: 'mean', align: 'right', drop: 0.9, cell: error(({ meanAbsError }) => meanAbsError) },
  { title: 'rms', align: 'right', drop: 1, cell: error(({ rmsError }) => rmsError) },
  { title: 'max rel', align: 'right', drop: 2, cell: error(({ maxRelError }) => maxRelError) },
  { title: 'p99.9', align: 'right', drop: 3, cell: error(({ p999AbsError }) => p999AbsError) },
  { title: 'vs plain', align: 'right', drop: 0.5, cell: ofError(plainRatio) },
  { title: 'mismatch', align: 'right', cell: counting(({ mismatches }) => mismatches) },
  { title: 'NaN', align: 'right', drop: 0.6, cell: counting(({ nanCount }) => nanCount) },
  {
    title: 'seeds',
    align: 'right',
    drop: 4,
    cell: figure(({ inputs, seeds }) => (inputs.length > 0 ? '-' : String(seeds))),
  },
  { title: 'time', align: 'right', drop: 5, cell: figure(({ seconds }) => formatSeconds(seconds)) },
];

/**
 * A case's title. Probes and drawn shapes have no other name, so they are marked: "1x2x333x64 probe", "1x1x513x64
 * random".
 */
const caseTitle = ({ shape, inputs, drawn }: Pick<CaseResult, 'shape' | 'inputs' | 'drawn'>): string => {
  const remark = caseRemark({ inputs, drawn });
  return `${caseText(shape)}${remark && ` ${remark}`}`;
};

/** Tells a probe or drawn shape from a case. */
export function caseRemark({ inputs, drawn }: Pick<CaseResult, 'inputs' | 'drawn'>): string {
  if (drawn) return 'random';
  return inputs.length > 0 ? 'probe' : '';
}

/**
 * Names the inputs of a probe that show the mistake: "normal, peaked". If nearly all do, names the ones that hide it:
 * "all 9 inputs but zeros".
 */
function wrongInputs({ inputs }: CaseResult): string {
  const named = (isWrong: boolean): string[] =>
    inputs.filter(({ verdict }) => (verdict === Verdict.FAIL) === isWrong).map(({ distribution }) => distribution);
  const [wrong, right] = [named(true), named(false)];
  if (wrong.length === 0) return `none of ${inputs.length} inputs`;
  if (wrong.length <= FEW_INPUTS || right.length >= wrong.length) return wrong.join(', ');
  return `all ${inputs.length} inputs${right.length === 0 ? '' : ` but ${right.join(', ')}`}`;
}
const FEW_INPUTS = 3;

const resultColumns = (results: readonly CaseResult[]): readonly Column<CaseResult>[] => [
  ...caseColumns(results, { shape: ({ shape }) => shape, remark: caseRemark }),
  { title: 'verdict', cell: verdictPiece, cutLast: true },
  ...errorColumns(results),
];

/** A row for one output of a case with several outputs. */
interface OutputRow {
  result: CaseResult;
  output: OutputResult;
}

const ofLimit = ({ worstOfLimit }: OutputResult): Piece =>
  piece(worstOfLimit === undefined ? '-' : shareOfLimit(worstOfLimit));

const outputColumns = (rows: readonly OutputRow[]): readonly Column<OutputRow>[] => [
  ...caseColumns(rows, { shape: ({ result }) => result.shape, remark: ({ result }) => caseRemark(result) }),
  { title: 'output', cell: ({ output }) => `${output.name} ${output.dtype}` },
  { title: 'verdict', cell: ({ output }) => verdictPiece(output), cutLast: true },
  { title: LARGEST_ERROR, align: 'right', cell: ({ output }) => formatError(output.maxAbsError) },
  { title: 'of limit', align: 'right', cell: ({ output }) => ofLimit(output) },
  { title: 'mismatch', align: 'right', cell: ({ output }) => formatCount(output.mismatches) },
  { title: 'NaN', align: 'right', drop: 1, cell: ({ output }) => formatCount(output.nanCount) },
  { title: 'tolerance', drop: 2, cell: ({ output }) => toleranceText(output.tolerance) },
];

/** Empty if no case has several outputs. */
function outputBlocks(results: readonly CaseResult[]): Block[] {
  const rows = results.flatMap((result) => result.outputs.map((output) => ({ result, output })));
  return rows.length === 0
    ? []
    : [heading('Outputs'), ...sharedBlocks(rows.map(({ result }) => result.shape)), tableOf(outputColumns(rows), rows)];
}

export function verdictPiece({ verdict }: Pick<CaseResult, 'verdict'>): Piece {
  const { mark, word, role } = VERDICT_MARKS[verdict];
  return marked(mark, word, role);
}

/** Further facts about a case. `seeds` is the number of seeds that the job asked for. */
export function caseFacts(result: CaseResult, seeds = result.seeds): Fact[] {
  // A case that crashed or timed out compared nothing.
  if (result.elements === 0n) return [];
  const deterministic = result.deterministic ? 'yes' : 'no';
  return [
    ...(result.inputs.length > 0 ? [fact('wrong on', wrongInputs(result))] : []),
    ...(result.output === '' ? [] : [fact('output', result.output)]),
    fact('Inf', formatCount(result.infCount), result.infCount > 0n ? 'bad' : undefined),
    fact('unwritten', formatCount(result.unwrittenCount), result.unwrittenCount > 0n ? 'bad' : undefined),
    fact('elements', formatCount(result.elements)),
    ...(result.inputs.length > 0 ? [] : [fact('seeds', seedsText(result, seeds))]),
    result.deterministic === undefined
      ? fact('deterministic', 'not checked', 'dim')
      : fact('deterministic', deterministic, result.deterministic ? undefined : 'warn'),
    // The ratio takes only finite elements into account, so without finite elements it would be 0.
    ...(result.rounding && hasFinite(result) ? [roundingFact(result.rounding)] : []),
    ...(result.foundFrom ? [fact('found from', shapeShort(result.foundFrom))] : []),
    ...(result.fp16MaxAbsError > 0 ? [plainFact(result)] : []),
  ];
}

const seedsText = ({ verdict, seeds }: CaseResult, asked: number): string =>
  verdict === Verdict.FAIL && seeds < asked ? `${seeds} of ${asked}: stopped at the first wrong one` : String(seeds);

const roundingFact = ({ ratio, limit }: RoundingError): Fact =>
  fact(
    'rounding',
    `${formatNumber(ratio, 3)}x the error that it explains (limit ${formatNumber(limit, 3)})`,
    ratio > limit ? 'bad' : undefined,
  );

/** FlashAttention's rule: at most twice the error of attention in the plain arithmetic of the dtype. */
const plainFact = (result: CaseResult): Fact =>
  fact(
    'plain attention',
    `largest error ${formatError(result.fp16MaxAbsError)}, this kernel's is ${plainRatio(result)} that (limit 2)`,
    result.flashAttentionRule === Verdict.FAIL ? 'bad' : undefined,
  );

type NamedOutput = Pick<CaseResult, 'output' | 'errorMap'>;

/**
 * An element such as "b0 h3 s17 d5: got 0.500, want 0.250 (off by 2.50e-1)". If there are several outputs, the text is
 * like "LSE[0, 3, 17]: got …".
 */
export function elementText(
  { batch, head, row, column, got, want }: ElementError,
  { output, errorMap }: NamedOutput,
): string {
  const [gotText, wantText] = formatPair(got, want);
  const indices = [batch, head, row, column].slice(-(errorMap?.outputDims.length ?? 4));
  const place = output === '' ? `b${batch} h${head} s${row} d${column}` : `${output}[${indices.join(', ')}]`;
  return `${place}: got ${gotText}, want ${wantText} (off by ${formatError(Math.abs(got - want))})`;
}

/**
 * The element closest to its limit or farthest beyond it, with its share of the limit: "closest to its limit (44 %): b1
 * h5 s181 d22: got …". The tolerance grows with the value, so another element may have the largest error. Empty if no
 * element was compared.
 */
export function worstText(result: CaseResult, name = ''): string {
  const { worst, worstOfLimit } = result;
  if (worst === undefined) return '';
  const share = worstOfLimit === undefined ? '' : ` (${shareOfLimit(worstOfLimit)})`;
  return `${limitWords(result)}${share}: ${name && `${name} `}${elementText(worst, result)}`;
}

export const limitWords = ({ worstOfLimit, mismatches }: Pick<CaseResult, 'worstOfLimit' | 'mismatches'>): string =>
  (worstOfLimit === undefined ? mismatches > 0n : worstOfLimit > 1)
    ? 'farthest beyond its limit'
    : 'closest to its limit';

/** The tolerance that the figures of a case are judged by: its output's own, or else the job's. */
export const toleranceOf = (
  { output, outputs }: Pick<CaseResult, 'output' | 'outputs'>,
  tolerance: Tolerance | undefined,
): Tolerance | undefined => outputs.find(({ name }) => name === output)?.tolerance ?? tolerance;

/** The rule of a tolerance: "|out - ref| <= 0.01 + 0.01 |ref|". */
export const toleranceRule = ({ absolute = 0, relative = 0 }: Pick<Tolerance, 'absolute' | 'relative'>): string =>
  `|out - ref| <= ${formatNumber(absolute)} + ${formatNumber(relative)} |ref|`;

export function toleranceText(tolerance: Tolerance | undefined): string {
  if (!tolerance) return 'tolerance not named';
  if (tolerance.profile && tolerance.absolute === undefined && tolerance.relative === undefined)
    return tolerance.profile;
  const rule = toleranceRule(tolerance);
  return tolerance.profile ? `${rule} (${tolerance.profile})` : rule;
}

/** Only failed probes get a row. The tally covers the passed ones. */
const failedProbes = (verify: VerifyResult): CaseResult[] =>
  allProbes(verify).filter(({ verdict }) => verdict === Verdict.FAIL);

/** The cases, the reasons for failures, and SDPA on the same inputs. */
export function verifyBlocks(verify: VerifyResult): Block[] {
  const { cases } = verify;
  const shown = [...cases, ...failedProbes(verify)];
  return [
    heading('Correctness', `${parityText(parityCounts(verify))} passed, ${formatSeconds(verify.seconds)}`),
    notice(`${toleranceText(verify.tolerance)}; reference: ${verify.reference}`, 'dim'),
    ...sharedBlocks(shown.map(({ shape }) => shape)),
    tableOf(resultColumns(shown), shown),
    ...outputBlocks(shown),
    ...(cases.some(({ fp16MaxAbsError }) => fp16MaxAbsError > 0)
      ? [
          notice(
            'vs plain: largest error over that of plain attention in the same dtype; a gate of runs allows 2x',
            'dim',
          ),
        ]
      : []),
    ...shown.flatMap(complaint),
    ...mapBlocks(shown),
    ...sdpaBlocks(cases),
  ];
}

/**
 * The error map of the first wrong case, which shows whether whole tiles, whole rows or scattered elements are wrong.
 * View 2 has the maps of the others.
 */
function mapBlocks(results: readonly CaseResult[]): Block[] {
  const wrong = results.find(({ verdict, errorMap }) => verdict === Verdict.FAIL && (errorMap?.rows ?? 0) > 0);
  if (wrong?.errorMap === undefined) return [];
  return [
    plot(`Error map of ${outputTitle(wrong)}${caseTitle(wrong)}: largest |out - reference|`, {
      type: 'heat',
      map: wrong.errorMap,
      isNamed: wrong.output !== '',
    }),
  ];
}

/** A prefix such as "LSE of " if a case has several outputs. */
export const outputTitle = ({ output }: Pick<CaseResult, 'output'>): string => (output === '' ? '' : `${output} of `);

function complaint(result: CaseResult): Block[] {
  const shape = `${caseTitle(result)}${result.foundFrom ? ` (smallest failing shape, found from ${shapeShort(result.foundFrom)})` : ''}`;
  if (result.verdict === Verdict.PASS)
    return result.deterministic !== false || result.seeds === 0
      ? []
      : [notice(`${shape}: two runs on the same input differed in their bits`, 'warn', '⚠')];
  const counts = [
    result.nanCount > 0n ? `${formatCount(result.nanCount)} NaN` : '',
    result.infCount > 0n ? `${formatCount(result.infCount)} Inf` : '',
    result.unwrittenCount > 0n ? `${formatCount(result.unwrittenCount)} never written` : '',
  ].filter((part) => part !== '');
  const among = counts.length > 0 ? ` (${counts.join(', ')} of ${formatCount(result.elements)} elements)` : '';
  const { mark, role } = VERDICT_MARKS[result.verdict];
  return [notice(`${shape}: ${reasonText(result.reason ?? 'no reason given')}${among}${worstOf(result)}`, role, mark)];
}

function worstOf(result: CaseResult): string {
  const { worst, mismatches, output } = result;
  if (worst === undefined || mismatches === 0n || output !== '' || reasonNamesWorst(result)) return '';
  return `; ${worstText(result)}`;
}

/** True if the reason for a failure already names the worst element. */
export const reasonNamesWorst = ({ worst, reason = '' }: Pick<CaseResult, 'worst' | 'reason'>): boolean =>
  worst !== undefined && reason.includes(`s${worst.row} d${worst.column}`);
