import { create } from '@bufbuild/protobuf';
import {
  FindingKind,
  FindingSchema,
  type Finding,
  type Shape,
  type ElementError,
  type Plain,
} from '@flashcore/shared/contract';
import { formatShape, shapeOf, valuesOf } from '@flashcore/shared/kernels';
import { entryOf, formatCount, formatError, formatPair } from '@flashcore/shared/text';
import {
  MUTANTS_FLOPS_OF_HEAD,
  type CaseReport,
  type MismatchPlaces,
  type OutputReport,
  type WrongKeys,
} from '../../worker/messages/verifying.ts';

/** The findings about a case's outputs, worst first; empty if there are none. */
export function caseFindings(report: CaseReport, shape: Shape): Finding[] {
  const { outputs, modified, straying, isAttention, likeMutants = [], tooLargeToExplain = false } = report;
  const of: MakeFinding = (kind, message, remedy) =>
    create(FindingSchema, { kind, message: `${formatShape(shape)}: ${message}`, remedy, shape });
  const elements = outputs.reduce((sum, { figures }) => sum + figures.elements, 0n);
  return [
    ...(modified.length > 0
      ? [
          of(
            FindingKind.INPUT_MODIFIED,
            `the kernel changed ${modified.join(', ')}`,
            `Write to ${outputs.map(({ name }) => name).join(', ')} and to the workspace only; check the indices of every store`,
          ),
        ]
      : []),
    ...(straying > 0
      ? [
          of(
            FindingKind.OUT_OF_BOUNDS,
            `right by luck: with other bytes before and after the tensors, ${formatCount(straying)} of ${formatCount(elements)} elements are outside the tolerance`,
            'The kernel reads outside a tensor: check the guards of its loads at the first and the last rows',
          ),
        ]
      : []),
    ...outputs.flatMap((output) =>
      outputFindings(output, {
        of,
        named: areNamed(outputs, shape),
        isAttention,
        likeMutants,
        tooLarge: tooLargeToExplain,
        shape,
        others: modified.length + straying,
      }),
    ),
  ];
}

/**
 * Whether messages name outputs and list indices, as in "LSE[0, 3, 17]". Only attention's single output, [B, H, S, D],
 * is described by b, h, s and d instead.
 */
export const areNamed = (outputs: readonly OutputReport[], shape: Shape): boolean =>
  outputs.length > 1 ||
  outputs.some(({ figures: { errorMap } }) => {
    const { outputDims: dims } = errorMap;
    return dims.length !== SHORT_NAMED_RANK || Number(dims.at(-2)) !== entryOf(valuesOf(shape), 'S');
  });
const SHORT_NAMED_RANK = 4;

/** Begins the remedy of a wrong output about which nothing is known. */
export const SEE_THE_MAP = 'See where the errors are, on the error map (view 2, or fa-tui verify)';

/** Begins the sentence about an output that was too large to look for the mistake. */
export const TOO_LARGE = 'This shape is too large to look for the mistake';

/** Ends the remedy of a wrong output that was too large to look for the mistake: names a shape for which it is. */
export function smallerText(shape: Shape): string {
  const { S, D, Hkv, Skv, ...values } = valuesOf(shape);
  if (S === undefined || D === undefined) return `${TOO_LARGE}: verify a smaller one`;
  // A head takes 4 S Skv D operations.
  const most = Math.max(1, 2 ** Math.floor(Math.log2(Math.sqrt(MUTANTS_FLOPS_OF_HEAD / (4 * D)))));
  const smaller = shapeOf({
    ...values,
    ...{ B: 1, H: 1, S: Math.min(S, most), D },
    ...(Hkv !== undefined && { Hkv: 1 }),
    ...(Skv !== undefined && { Skv: Math.min(Skv, most) }),
  });
  return `${TOO_LARGE}: verify with --shape ${formatShape(smaller)}`;
}

/** Begins the last sentence of a remedy: the command that repeats the fault on inputs that the runner drew. */
export const TO_REPEAT = '. To repeat it: ';

/** Begins the remedy of an output that a mistake explains. */
export const IS_LIKE = 'This is the output';

type MakeFinding = (kind: FindingKind, message: string, remedy: string) => Finding;

interface OutputContext {
  of: MakeFinding;
  /** Whether messages name the output. */
  named: boolean;
  isAttention: boolean;
  likeMutants: NonNullable<CaseReport['likeMutants']>;
  /** Whether it was too large to look for the mistake. */
  tooLarge: boolean;
  shape: Shape;
  /** The number of other findings about the same case. */
  others: number;
}

/** Findings of one output. */
function outputFindings(output: OutputReport, context: OutputContext): Finding[] {
  const { of, named, isAttention, others } = context;
  const { name, figures, mismatchPlaces, beyondRounding, trivialNorm } = output;
  const findings: Finding[] = [];
  const where = placesText(mismatchPlaces, figures.errorMap.outputDims, named);
  const allIn = where === '' ? '' : `, all in ${where}`;
  const lookIn = `Look for what the kernel does differently in ${where}`;
  const smaller = context.tooLarge ? `. ${smallerText(context.shape)}` : '';
  const notFinite = figures.nanCount + figures.infCount;
  const wrong = figures.mismatches - notFinite - figures.unwrittenCount;
  const first = figures.firstMismatches[0];
  const place = (element: Plain<ElementError>): string =>
    named ? elementOf(name, element, figures.errorMap.outputDims.length) : elementText(element);
  const share = (count: number | bigint): string =>
    `${formatCount(count)} of ${formatCount(figures.elements)} elements${named ? ` of ${name}` : ''}`;
  const counted = (count: number | bigint): string => `${share(count)} ${Number(count) === 1 ? 'is' : 'are'}`;
  if (figures.unwrittenCount > 0) {
    findings.push(
      of(
        FindingKind.UNWRITTEN_OUTPUT,
        `${share(figures.unwrittenCount)} ${Number(figures.unwrittenCount) === 1 ? 'was' : 'were'} never written${allIn}${first ? `, first ${place(first)}` : ''}`,
        BigInt(figures.unwrittenCount) === figures.elements
          ? `No launch wrote to ${name}: compute its elements and store them; if the kernel does, check the order of \`arguments\` in kernel.yaml`
          : 'Check the guards of the stores and the grid against the shape',
      ),
    );
  }
  if (notFinite > 0) {
    const kinds = [
      ...(figures.nanCount > 0 ? [`${counted(figures.nanCount)} NaN`] : []),
      ...(figures.infCount > 0 ? [`${counted(figures.infCount)} Inf`] : []),
    ];
    findings.push(
      of(
        FindingKind.NAN_OUTPUT,
        `${kinds.join(', ')}${allIn}${first ? `, first ${place(first)}` : ''}`,
        `${isAttention ? 'A fully masked row needs a finite running maximum; ' : ''}-inf - -inf and 0 / 0 are NaN; shared memory that was never written reads as NaN here`,
      ),
    );
  }
  if (wrong > 0) {
    findings.push(
      of(
        FindingKind.WRONG_RESULT,
        `${counted(wrong)} outside the tolerance${allIn}; the largest error is ${formatError(figures.maxAbsError)}${worstText(figures, place)}`,
        likenessText(output, context) ||
          (where === ''
            ? `${SEE_THE_MAP}: whole tiles point to indexing or a missing barrier, whole rows to ${isAttention ? 'the running maximum and sum' : 'what is computed once a row'}${smaller}`
            : `${lookIn}; the error map (view 2, or fa-tui verify) shows them${smaller}`),
      ),
    );
  }
  if (beyondRounding && figures.rounding && findings.length + others === 0) {
    const { ratio, limit } = figures.rounding;
    findings.push(
      of(
        FindingKind.WRONG_RESULT,
        `each element${named ? ` of ${name}` : ''} is within the tolerance, but ${rowsText(figures.errorMap.outputDims)} the error is ${beyondText(ratio, limit)} times what rounding to the dtype explains (limit ${limit.toPrecision(3)})${allIn}`,
        likenessText(output, context) ||
          // A number format is the same in every row.
          (where === ''
            ? `Keep inputs${isAttention ? ' and weights' : ''} in the dtype of the tensors, and sums${isAttention ? ' and logits' : ''} in fp32: a format of 8 bits, small values left out and sums in fp16 look like this${smaller}`
            : `${lookIn}${smaller}`),
      ),
    );
  }
  if (trivialNorm && findings.length + others === 0) {
    findings.push(
      of(
        FindingKind.WRONG_RESULT,
        `${named ? name : 'the output'} is within the tolerance, but its norm is less than half of the reference's`,
        'Small values must be computed too',
      ),
    );
  }
  return findings;
}

/** Says which known mistake a wrong output resembles; empty if none is known. */
function likenessText(
  { name, factors, wrongKeys }: OutputReport,
  { named, isAttention, likeMutants }: OutputContext,
): string {
  const what = named ? name : 'the output';
  if (likeMutants.length > 0)
    return `${IS_LIKE} ${likeMutants
      .map(({ name: mutant, about }) => (mutant === '' ? `where ${about}` : `of the mutant ${mutant}: ${about}`))
      .join('; or ')}`;
  if (factors === undefined) return wrongKeys === undefined ? '' : wrongKeysText(wrongKeys);
  const [least, most] = [factors.least, factors.most].map((factor) => factor.toPrecision(3));
  return least === most
    ? `Every element of ${what} is ${least} times the right one: look for a factor that is missing or applied twice`
    : `Each row of ${what} is the right one times a factor of its own, ${least} to ${most}: look at what ${isAttention ? 'divides a row (the running sum) and at what rescales it' : 'is computed once a row and scales it'}`;
}

/** Says how a kernel mistreats a few keys, which makes its output wrong. */
function wrongKeysText({ keys, ofKeys, change }: WrongKeys): string {
  const which = indicesText(keys, { extent: ofKeys, noun: 'key', letter: '' }) || `${keys.length} of ${ofKeys} keys`;
  const isOne = keys.length === 1;
  const those = isOne ? 'this key' : 'these keys';
  switch (change?.kind) {
    case 'left-out':
      return `${IS_LIKE} without ${which}: look at what skips or masks ${isOne ? 'it' : 'them'}`;
    case 'hidden':
      return `${IS_LIKE} where rows also see ${which}, which ${isOne ? 'is' : 'are'} masked: look at the mask`;
    case 'weights':
    case 'logits':
      return `${IS_LIKE} where the ${change.kind} of ${which} are ${change.factor.toPrecision(3)} times the right ones: look at what the kernel does differently with ${those}`;
    case undefined:
      return `${IS_LIKE} where the kernel treats only ${which} wrongly: look at what it does differently with ${those}`;
  }
}

/** A ratio beyond the limit, with as many digits as tell the two apart: 2.0004 of a limit of 2.00. */
function beyondText(ratio: number, limit: number): string {
  const digits = [3, 4, 5, 6, 7, 8].find((count) => ratio.toPrecision(count) !== limit.toPrecision(count)) ?? 17;
  return ratio.toPrecision(digits);
}

/** Rows of a head over which the error is averaged; an output with fewer has no more. */
const AVERAGED_ROWS = 16;

function rowsText(outputDims: readonly bigint[]): string {
  const rows = Math.min(AVERAGED_ROWS, Number(outputDims.at(-2) ?? 1));
  return rows === 1 ? 'over a row' : `over ${rows} rows`;
}

/**
 * The few heads, rows or columns that all mismatches are in, for example "head h3", "columns d57, d59, d61 and d63",
 * "rows s320 to s332" or "every 4th column from 3 to 63"; empty if they are everywhere.
 */
export function placesText(places: MismatchPlaces | undefined, outputDims: readonly bigint[], named: boolean): string {
  if (places === undefined) return '';
  const [s, d] = named ? ['', ''] : ['s', 'd'];
  return [
    outputDims.length === SHORT_NAMED_RANK ? headsText(places, Number(outputDims[1])) : '',
    indicesText(places.rows, { extent: places.ofRows, noun: 'row', letter: s }),
    indicesText(places.columns, { extent: places.ofColumns, noun: 'column', letter: d }),
  ]
    .filter((text) => text !== '')
    .join(', ');
}

/** Such as "head h3", "heads b0 h3 and b1 h5", "head h3 of every batch" or "batch b1"; empty if most are wrong. */
function headsText({ heads, ofHeads }: MismatchPlaces, perBatch: number): string {
  if (heads.length === 0 || heads.length > LARGE_SHARE * ofHeads) return '';
  const batches = ofHeads / perBatch;
  const inBatch = [...new Set(heads.map((head) => head % perBatch))];
  const ofBatches = [...new Set(heads.map((head) => Math.floor(head / perBatch)))];
  if (perBatch === 1) return indicesText(ofBatches, { extent: batches, noun: 'batch', nouns: 'batches', letter: 'b' });
  const whole = heads.length === inBatch.length * ofBatches.length;
  if (whole && inBatch.length === perBatch)
    return indicesText(ofBatches, { extent: batches, noun: 'batch', nouns: 'batches', letter: 'b' });
  if (whole && ofBatches.length === batches) {
    const text = indicesText(inBatch, { extent: perBatch, noun: 'head', letter: 'h' });
    if (text !== '') return batches === 1 ? text : `${text} of every batch`;
  }
  const names = heads.map((head) => `b${Math.floor(head / perBatch)} h${head % perBatch}`);
  if (heads.length <= MOST_LISTED) return `${heads.length === 1 ? 'head' : 'heads'} ${LIST.format(names)}`;
  return `${heads.length} of ${ofHeads} heads, first ${names[0]!}`;
}

const LIST = new Intl.ListFormat('en-GB');

/** More indices than this share of an extent are "everywhere". */
const LARGE_SHARE = 0.5;
const MOST_LISTED = 6;

interface IndexWords {
  extent: number;
  noun: string;
  /** The plural, if it is not the noun with an s. */
  nouns?: string;
  letter: string;
}

function indicesText(indices: readonly number[], { extent, noun, nouns = `${noun}s`, letter }: IndexWords): string {
  const [first, second] = indices;
  const last = indices.at(-1);
  if (first === undefined || last === undefined || indices.length > LARGE_SHARE * extent) return '';
  const at = (index: number): string => `${letter}${index}`;
  if (second === undefined) return `${noun} ${at(first)}`;
  const step = second - first;
  const isRegular = indices.every((index, place) => index === first + place * step);
  if (isRegular && step === 1 && indices.length > 2) return `${nouns} ${at(first)} to ${at(last)}`;
  if (indices.length <= MOST_LISTED) return `${nouns} ${LIST.format(indices.map(at))}`;
  if (isRegular) return `every ${ordinal(step)} ${noun} from ${at(first)} to ${at(last)}`;
  return `${indices.length} of ${extent} ${nouns} (${at(first)} to ${at(last)})`;
}

const ORDINALS = new Intl.PluralRules('en', { type: 'ordinal' });
const ENDINGS: Record<string, string> = { one: 'st', two: 'nd', few: 'rd' };
const ordinal = (number: number): string => `${number}${ENDINGS[ORDINALS.select(number)] ?? 'th'}`;

/** Describes the worst element. Another element may have a larger error within a larger limit. */
function worstText(
  { worst, maxAbsError }: OutputReport['figures'],
  place: (element: Plain<ElementError>) => string,
): string {
  if (!worst) return '';
  const isLargest = Math.abs(worst.got - worst.want) > 0.99 * maxAbsError;
  return isLargest ? ` ${place(worst)}` : `; the element ${place(worst)} is farthest beyond its limit`;
}

/** The position and values of an element, such as "at LSE[0, 3, 17] (got 0.5, want 0.25)". */
function elementOf(name: string, { batch, head, row, column, got, want }: Plain<ElementError>, rank: number): string {
  const indices = [batch, head, row, column].slice(-rank);
  return `at ${name}[${indices.join(', ')}] ${pairText(got, want)}`;
}

function elementText({ batch, head, row, column, got, want }: Plain<ElementError>): string {
  return `at b${batch} h${head} s${row} d${column} ${pairText(got, want)}`;
}

function pairText(got: number, want: number): string {
  const [gotText, wantText] = formatPair(got, want);
  return `(got ${gotText}, want ${wantText})`;
}

/** The first finding of each kind, because later cases repeat it. */
export function distinctFindings(findings: readonly Finding[]): Finding[] {
  return [...new Map(findings.toReversed().map((finding) => [finding.kind, finding])).values()].toReversed();
}
