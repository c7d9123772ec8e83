/**
 * Finds what a wrong output resembles: the answer with a mutant of the problem, the right answer times a factor, or
 * attention that treats a few keys wrongly. Of a large case, only the worst head is compared.
 */
import { FlashcoreError } from '@flashcore/shared/contract';
import { parseExpression, type Problem, type ProblemCase, type ProblemMutant } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Answers, Reference } from '../driver/reference.ts';
import {
  matricesOf,
  outputsOf,
  tensorOf,
  valueReader,
  type OutputExtent,
  type TensorsByName,
} from '../driver/tensor-bits.ts';
import type { Executor } from '../messages/device.ts';
import { MUTANTS_FLOPS_OF_HEAD, type Factors, type OutputReport, type WrongKeys } from '../messages/verifying.ts';
import { answersOf, compareOutputs, saturated, type JudgementLimits } from './judgement.ts';
import { mutatedOutputs, mutatedQuestion } from './mutate.ts';
import type { Comparison } from './output-comparison.ts';
import { ReferenceFailed } from './own-reference.ts';
import { worstHeadOf } from './worst-head.ts';
import { wrongKeysOf } from './wrong-keys.ts';

export interface WrongRun {
  kind: ProblemCase;
  inputs: TensorsByName;
  /** The kernel's outputs. */
  outputs: TensorsByName;
  /** The outputs that it should have computed. */
  answers: Answers;
  limits: JudgementLimits;
  own: Executor | undefined;
}

/** Known mistakes that would explain a wrong output. */
export interface Mistake {
  likeMutants: Pick<ProblemMutant, 'name' | 'about'>[];
  /** The wrong keys of the first output. */
  wrongKeys: WrongKeys | undefined;
}

export const isKnown = ({ likeMutants, wrongKeys }: Mistake): boolean =>
  likeMutants.length > 0 || wrongKeys !== undefined;

/** Most floating-point operations of a whole case that the oracle computes for each mutant. */
const MUTANTS_FLOPS = 5e7;
/** Most floating-point operations of a head in which wrong keys are searched for. The oracle computes the head once. */
const KEYS_FLOPS_OF_HEAD = 5e9;

const headsOf = (kind: ProblemCase): number => matricesOf(outputsOf(kind)[0]).heads;

/** Compares a wrong output with the usual mistakes; in a large case of attention, only that of the worst head. */
export async function mistakeOf(problem: Problem, run: WrongRun, reference: Reference): Promise<Mistake | 'too large'> {
  const isSmall = run.kind.flops <= MUTANTS_FLOPS;
  if (!isSmall && run.kind.flops / headsOf(run.kind) > KEYS_FLOPS_OF_HEAD) return 'too large';
  const looked = isSmall ? run : worstHeadOf(problem, run);
  if (looked === undefined) return 'too large';
  const comparesMutants = isSmall || looked.kind.flops <= MUTANTS_FLOPS_OF_HEAD;
  const likeMutants = comparesMutants ? await mutantsLike(problem, looked, reference) : [];
  const { kind, inputs, outputs, answers } = looked;
  const want = answers.get(outputsOf(kind)[0].name)!.want;
  const wrongKeys = likeMutants.length > 0 ? undefined : wrongKeysOf(reference, { kind, inputs, outputs, want });
  const mistake = { likeMutants, wrongKeys };
  return comparesMutants || isKnown(mistake) ? mistake : 'too large';
}

/** An error that shrinks to this share of its square is explained; rounding is far below it. */
const EXPLAINED_SHARE = 1e-2;
const MOST_MUTANTS = 2;

const scaled = (value: string, about: string): ProblemMutant => ({
  name: '',
  about,
  change: { kind: 'set', values: [{ name: 'scale', value: parseExpression(value) }] },
});
/** Usual mistakes that problems do not list; they have no name. */
const SCALE_MISTAKES: readonly ProblemMutant[] = [
  scaled('scale / 1.4426950408889634', 'exp2 takes logits that were not multiplied by log2(e)'),
  scaled('scale * 1.4426950408889634', 'exp takes logits that were multiplied by log2(e)'),
  scaled('scale * scale', 'logits are scaled twice'),
];

/**
 * The mutants whose answer the output is, within the tolerance and much closer than to the right answer; at most two,
 * because some mistakes look alike in a case.
 */
export async function mutantsLike(
  problem: Problem,
  run: WrongRun,
  reference: Reference,
): Promise<Pick<ProblemMutant, 'name' | 'about'>[]> {
  const found: Pick<ProblemMutant, 'name' | 'about'>[] = [];
  const now = comparedWith(run.answers, run, reference);
  for (const mutant of [...problem.mutants, ...('scale' in run.kind.values ? SCALE_MISTAKES : [])]) {
    const answers = await mutatedAnswers(problem, mutant, { run, reference });
    if (answers && isExplained(answers, { run, now }, reference))
      found.push({ name: mutant.name, about: mutant.about });
    if (found.length === MOST_MUTANTS) break;
  }
  return found;
}

/** Undefined if the mutant changes nothing in this case, or if the oracle refuses the case that it makes. */
async function mutatedAnswers(
  problem: Problem,
  mutant: ProblemMutant,
  { run: { kind, inputs, own }, reference }: { run: WrongRun; reference: Reference },
): Promise<Answers | undefined> {
  const { change } = mutant;
  // An unwritten element still holds its poison and has a finding of its own.
  if (change.kind === 'unwritten') return undefined;
  try {
    const question = mutatedQuestion(problem, mutant, { kind, inputs });
    if (question && isSame(question.inputs, inputs) && question.kind === kind) return undefined;
    if (question) return saturated(kind, await answersOf(reference, question.kind, { inputs: question.inputs, own }));
    if (change.kind === 'set' || !outputsOf(kind).some(({ name }) => name === change.tensor)) return undefined;
    const answers = saturated(kind, await answersOf(reference, kind, { inputs, own }));
    const right = Object.fromEntries(
      outputsOf(kind).map(({ name, dtype }) => [name, tensorOf(Float32Array.from(answers.get(name)!.want), dtype)]),
    );
    const changed = mutatedOutputs(mutant, kind, { outputs: right, poison: 0 });
    return new Map(
      outputsOf(kind).map(({ name, dtype }) => {
        const bits = entryOf(changed, name)!;
        return [
          name,
          { ...answers.get(name)!, want: Float64Array.from(bits, (_, index) => valueReader(bits, dtype)(index)) },
        ];
      }),
    );
  } catch (error) {
    // `problem check` reports a mutant that cannot be computed; here it explains nothing.
    if (error instanceof FlashcoreError || error instanceof ReferenceFailed) return undefined;
    throw error;
  }
}

/** Whether a mutant changed no input, such as one that clamps values that are small. */
const isSame = (a: TensorsByName, b: TensorsByName): boolean =>
  Object.keys(a).every((name) => Buffer.compare(bytesOf(entryOf(a, name)!), bytesOf(entryOf(b, name)!)) === 0);

const bytesOf = ({ buffer, byteOffset, byteLength }: TensorsByName[string]): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

function isExplained(
  answers: Answers,
  { run, now }: { run: WrongRun; now: readonly Comparison[] },
  reference: Reference,
): boolean {
  const extents = outputsOf(run.kind).every(
    ({ name }) => answers.get(name)?.want.length === entryOf(run.outputs, name)!.length,
  );
  if (!extents) return false;
  const then = comparedWith(answers, run, reference);
  const squares = (all: readonly Comparison[]): number =>
    all.reduce((sum, { sumSquareError }) => sum + sumSquareError, 0);
  return then.every(({ mismatches }) => mismatches === 0) && squares(then) <= EXPLAINED_SHARE * squares(now);
}

/** Compares the outputs with answers of the same extents. */
function comparedWith(answers: Answers, { kind, outputs, limits }: WrongRun, reference: Reference): Comparison[] {
  const compared = outputsOf(kind);
  const written = new Set(compared.map(({ name }) => name));
  return compareOutputs(reference, outputs, { outputs: compared, answers, limits, poison: 0, written });
}

/**
 * The factors by which an output is the right answer times a number: one for all elements, or one for each row.
 * Undefined if the errors are of another kind.
 */
export function factorsOf(
  got: TensorsByName[string],
  want: Float64Array,
  output: OutputExtent,
): OutputReport['factors'] {
  const { columns } = matricesOf(output);
  const valueAt = valueReader(got, output.dtype);
  const all = fitted(valueAt, want, { from: 0, to: want.length });
  if (isWrongFactor(all.factor) && all.rest <= EXPLAINED_SHARE * all.error)
    return { least: all.factor, most: all.factor };
  // A row of one or two numbers nearly always has a factor.
  if (columns < LEAST_COLUMNS) return undefined;
  const rows = Array.from({ length: want.length / columns }, (_, row) =>
    fitted(valueAt, want, { from: row * columns, to: (row + 1) * columns }),
  );
  const total = (of: (row: Fit) => number): number => rows.reduce((sum, row) => sum + of(row), 0);
  if (!(total(({ rest }) => rest) <= EXPLAINED_SHARE * total(({ error }) => error))) return undefined;
  const factors = rows.map(({ factor }) => factor).filter(isWrongFactor);
  const span: Factors = { least: Math.min(...factors), most: Math.max(...factors) };
  return factors.length > 0 && span.least > 0 ? span : undefined;
}

const LEAST_COLUMNS = 8;
/** A factor so near to 1 is rounding. */
const LEAST_OFF = 1e-3;
const isWrongFactor = (factor: number): boolean => factor !== 0 && Math.abs(factor - 1) > LEAST_OFF;

interface Fit {
  factor: number;
  /** Sum of squares of got - want. */
  error: number;
  /** Sum of squares of got - factor * want. */
  rest: number;
}

/** The factor by least squares. */
function fitted(
  valueAt: (index: number) => number,
  want: Float64Array,
  { from, to }: { from: number; to: number },
): Fit {
  let [products, squares, gotSquares] = [0, 0, 0];
  for (let index = from; index < to; index += 1) {
    const [got, wanted] = [valueAt(index), want[index]!];
    products += got * wanted;
    squares += wanted * wanted;
    gotSquares += got * got;
  }
  const factor = squares === 0 ? 0 : products / squares;
  return { factor, error: gotSquares - 2 * products + squares, rest: Math.max(0, gotSquares - factor * products) };
}
