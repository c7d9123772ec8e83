/** Judges whether an answer is right: by the tolerance, by what rounding explains, and by its norm. */
import {
  DTYPES,
  isPlainAttention,
  isSmall,
  rangeOf,
  toleranceOfOutput,
  type LaunchPlan,
  type ProblemCase,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Answers, Reference, RoundedAnswer } from '../driver/reference.ts';
import { outputOf, outputsOf, type OutputExtent, type TensorsByName } from '../driver/tensor-bits.ts';
import type { Executor } from '../messages/device.ts';
import type { JudgementRules, MismatchPlaces, OutputFigures } from '../messages/verifying.ts';
import { compareOutput, wrongPlaces, type Comparison } from './output-comparison.ts';
import { ownReference } from './own-reference.ts';
import { hasRounding, yardstickOf, type Yardstick } from './reference-book.ts';

/**
 * Maximum error of 16 rows of a head, in units of what rounding explains. Honest kernels stay below 0.9, and a kernel
 * with 8-bit K and V exceeds 30 (docs/inputs.md). If attention in plain arithmetic has a larger error, for example
 * because it rounds logits of 100, the limit is twice that error. A kernel that declares that it rounds no logits gets
 * no such higher limit.
 */
const ROUNDING_LIMIT = 2;
const ROUNDING_YARDSTICKS = 2;
/** Maximum error of an element whose rounding the tolerance does not cover: ROUNDING_LIMIT for 16 elements together. */
export const EXPLAINED_BY_ROUNDING = 4 * ROUNDING_LIMIT;
const MIN_NORM_RATIO = 0.5;

/** Maximum error of an output, in units of what rounding explains. */
export const roundingLimitOf = (yardstick: Yardstick | undefined, plan: Arithmetic): number =>
  Math.max(ROUNDING_LIMIT, roundsLogits(plan) ? ROUNDING_YARDSTICKS * (yardstick?.roundingRatio ?? 0) : 0);

type Arithmetic = Pick<LaunchPlan, 'dtype' | 'accumulate'>;

/** Whether a kernel may round logits. With fp32, products may be tf32, whatever dtype they are summed in. */
export const roundsLogits = ({ dtype, accumulate }: Arithmetic): boolean => accumulate === 'fp16' || dtype === 'fp32';

/** The limits that a request sets for outputs. */
export type JudgementLimits = Omit<JudgementRules, 'ownReference'>;

/** The judgement of an output on one seed. */
export interface JudgedOutput {
  comparison: Comparison;
  /** Error of the worst 16 rows of a head, in units of what rounding explains. */
  rounding: OutputFigures['rounding'];
  /** Whether the error is more than rounding explains, if the request asks for that check. */
  beyondRounding: boolean;
  /** Where the output is wrong; undefined if nothing is, or if it is too large. */
  places: MismatchPlaces | undefined;
  /** Whether the output's norm is far from the reference's and rounding does not explain the difference. */
  trivialNorm: boolean;
}

interface Outputs {
  outputs: readonly [OutputExtent, ...OutputExtent[]];
  answers: Answers;
  limits: JudgementLimits;
}

interface Run extends Outputs {
  /** The pattern that filled the outputs before the run. */
  poison: number;
  /** Outputs whose elements were all written, as a run with another pattern showed. */
  written?: ReadonlySet<string>;
}

/** Compares each output with its answer. */
export const compareOutputs = (
  reference: Reference,
  tensors: TensorsByName,
  { outputs, answers, limits, poison, written }: Run,
): Comparison[] =>
  outputs.map((output) => {
    const { want, rounding, roundingExplains = false } = answers.get(output.name)!;
    return compareOutput(reference, entryOf(tensors, output.name)!, want, {
      output,
      poison: written?.has(output.name) ? undefined : poison,
      tolerance: toleranceOfOutput(output, limits),
      ...(rounding && roundingExplains && limits.judgeRounding && { rounding, explained: EXPLAINED_BY_ROUNDING }),
    });
  });

interface Compared extends Outputs {
  /** Result of compareOutputs(). */
  comparisons: readonly Comparison[];
  /** From roundingLimitOf(). */
  roundingLimit: number;
}

export function judgeOutputs(
  reference: Reference,
  tensors: TensorsByName,
  { outputs, answers, comparisons, roundingLimit: limit, limits }: Compared,
): [JudgedOutput, ...JudgedOutput[]] {
  const judged = outputs.map((output, index): JudgedOutput => {
    const answer = answers.get(output.name)!;
    const rounding = hasRounding(answer)
      ? { ratio: reference.roundingRatio(entryOf(tensors, output.name)!, answer, output).ratio, limit }
      : undefined;
    const comparison = comparisons[index]!;
    const beyondRounding = limits.judgeRounding && rounding !== undefined && rounding.ratio > limit;
    const places = (): MismatchPlaces | undefined =>
      wrongPlaces(entryOf(tensors, output.name)!, answer.want, {
        ...{ output, limit, tolerance: toleranceOfOutput(output, limits) },
        explained: answer.roundingExplains === true && limits.judgeRounding ? EXPLAINED_BY_ROUNDING : 0,
        modelled: limits.judgeRounding ? answer.rounding : undefined,
      });
    return {
      comparison,
      rounding,
      trivialNorm: comparison.normRatio < MIN_NORM_RATIO && !mayVanish(answer),
      beyondRounding,
      places: comparison.mismatches > 0 || beyondRounding ? places() : undefined,
    };
  });
  return judged as [JudgedOutput, ...JudgedOutput[]];
}

export const isWrong = ({ comparison, beyondRounding, trivialNorm }: JudgedOutput): boolean =>
  comparison.mismatches > 0 || beyondRounding || trivialNorm;

/** Whether rounding explains an output of zeros, for example if a sink leaves the keys no weight. */
const mayVanish = (answer: RoundedAnswer): boolean =>
  hasRounding(answer) && squaresOf(answer.want) <= ROUNDING_LIMIT ** 2 * squaresOf(answer.rounding);

const squaresOf = (values: Float64Array | Float32Array): number => {
  let sum = 0;
  for (const value of values) sum += value * value;
  return sum;
};

interface Asked {
  inputs: TensorsByName;
  own: Executor | undefined;
}

/** The expected outputs, from the built-in oracle or the problem's own reference. */
export async function answersOf(reference: Reference, kind: ProblemCase, { inputs, own }: Asked): Promise<Answers> {
  if (kind.operation !== 'own') return withRoundings(kind, reference.answers(inputs, kind));
  if (!own) throw new Error(`${kind.problem} has a reference of its own, and the request names no process for it`);
  return withRoundings(kind, await ownReference(own, kind, inputs));
}

/**
 * The answers as outputs of 8 bits can hold them: larger numbers become the dtype's largest, as conversions make them.
 * Timed launches saturate on the device, where symmetries have changed the numbers (judge.cu).
 */
export const saturated = (kind: ProblemCase, answers: Answers): Answers =>
  new Map(
    outputsOf(kind).map(({ name, dtype }) => {
      const answer = answers.get(name)!;
      if (!isSmall(dtype)) return [name, answer];
      const [least, most] = rangeOf(dtype);
      return [name, { ...answer, want: answer.want.map((value) => Math.max(least, Math.min(most, value))) }];
    }),
  );

/** Adds what rounding explains to the outputs that declare it, if the reference does not model it. */
function withRoundings(kind: ProblemCase, answers: Answers): Answers {
  const outputs = outputsOf(kind).map((output) => {
    const answer = answers.get(output.name)!;
    const { rounds } = output;
    if (rounds === undefined || hasRounding(answer)) return [output.name, answer] as const;
    return [output.name, { ...answer, rounding: roundingOf(answer.want, { ...output, rounds }) }] as const;
  });
  return new Map(outputs);
}

/** Minimum number of elements of a root mean square, if the output has that many. */
const LEAST_TOGETHER = 16;

/**
 * Standard deviation of each element's rounding error. An element below its row's root mean square gets the error of
 * that root mean square, because the error of a sum does not shrink when terms cancel out. Short rows are taken
 * together; otherwise the only element of a row would be judged by itself.
 */
export function roundingOf(
  want: Float64Array,
  { dims, dtype, rounds }: Pick<OutputExtent, 'dims' | 'dtype'> & { rounds: number },
): Float32Array {
  const columns = dims.at(-1) ?? 1;
  const together = columns * Math.ceil(LEAST_TOGETHER / columns);
  const { unit, smallest } = DTYPES[dtype].rounding;
  const each = unit * Math.sqrt(rounds / 3);
  const rounding = new Float32Array(want.length);
  for (let first = 0; first < want.length; first += together) {
    // If the last rows are too few, the rows before them are included.
    const rows = want.subarray(Math.max(0, Math.min(first, want.length - together)), first + together);
    const least = Math.max(smallest, Math.sqrt(squaresOf(rows) / rows.length));
    for (let index = first; index < Math.min(first + together, want.length); index += 1)
      rounding[index] = each * Math.max(Math.abs(want[index]!), least);
  }
  return rounding;
}

/** The error of plain attention; undefined if it does not apply to the case. */
export const yardstickFor = (
  reference: Reference,
  kind: ProblemCase,
  { inputs, answers }: { inputs: TensorsByName; answers: Answers },
): Yardstick | undefined =>
  isPlainAttention(kind)
    ? yardstickOf(reference, { plain: reference.plain(inputs, kind), answers, output: outputOf(kind) })
    : undefined;
