import { elementsOfTensor, isPlainAttention, type ProblemCase } from '@flashcore/shared/kernels';
import type { Answers, Reference, RoundedAnswer } from '../driver/reference.ts';
import { outputOf, type OutputExtent, type TensorBits, type TensorsByName } from '../driver/tensor-bits.ts';
import type { SeededInput } from '../messages/launchable.ts';
import type { PreparedCase } from '../messages/verifying.ts';
import { drawInputs } from './inputs.ts';

/** Inputs, and what is right for them. */
export interface Answer {
  inputs: TensorsByName;
  answers: Answers;
  /** Where it was asked for: of a case's first input of a rule. */
  yardstick: Yardstick | undefined;
}

/** How far off attention in the plain arithmetic of the dtype is. */
export interface Yardstick {
  /** max|plain - fp64|. */
  maxAbsError: number;
  /** The worst block's, in units of its rounding. */
  roundingRatio: number;
}

interface PlainOutput {
  plain: TensorBits;
  answers: Answers;
  output: OutputExtent;
}

/** How far plain attention is off. */
export function yardstickOf(reference: Reference, { plain, answers, output }: PlainOutput): Yardstick {
  const answer = answers.get(output.name)!;
  if (!hasRounding(answer)) throw new Error(`plain attention has no rounding of ${output.name} to be judged by`);
  return {
    maxAbsError: reference.maxAbsError(plain, answer.want, output.dtype),
    roundingRatio: reference.roundingRatio(plain, answer, output).ratio,
  };
}

export const hasRounding = (answer: RoundedAnswer): answer is Required<RoundedAnswer> => answer.rounding !== undefined;

/** Of all that waits: 18 bytes each, 24 of fp32. */
const MAX_ELEMENTS = 24 * 1024 ** 2;
/** Smaller tensors may lie where a collection moves them, and take no time. */
const MIN_ELEMENTS = 1024;

type Entry = { state: 'wanted' } | { state: 'computing'; answer: Promise<Answer> } | { state: 'there'; answer: Answer };

/**
 * Inputs and references of a verification to come, computed on the library's threads while a kernel is still compiled.
 * They lie in this process's own memory, and none of it was ever the device's.
 */
export class ReferenceBook {
  readonly #reference: Reference;
  #entries = new Map<string, Entry>();
  #working: Promise<void> = Promise.resolve();

  constructor(reference: Reference) {
    this.#reference = reference;
  }

  /** Begins with these, in their order, and forgets what else there was. */
  prepare(cases: readonly PreparedCase[]): void {
    const entries = (this.#entries = new Map<string, Entry>());
    const wanted = within(cases);
    for (const { kind, input } of wanted) entries.set(keyOf(kind, input), { state: 'wanted' });
    this.#working = this.#working.then(async () => {
      for (const each of wanted) await this.#compute(entries, each);
    });
  }

  /**
   * What was computed, or is about to be: it is waited for. Undefined: it was not begun, and is left to whoever asks.
   * Given once.
   */
  async take(kind: ProblemCase, input: SeededInput): Promise<Answer | undefined> {
    const key = keyOf(kind, input);
    const entry = this.#entries.get(key);
    this.#entries.delete(key);
    if (entry?.state === 'computing') return await entry.answer;
    return entry?.state === 'there' ? entry.answer : undefined;
  }

  /** How far one is; undefined: it is not here. */
  stateOf(kind: ProblemCase, input: SeededInput): Entry['state'] | undefined {
    return this.#entries.get(keyOf(kind, input))?.state;
  }

  /** Forgets everything; settles when nothing is computed any more. */
  async clear(): Promise<void> {
    this.#entries = new Map();
    await this.#working;
  }

  async #compute(entries: Map<string, Entry>, { kind, input, yardstick }: Wanted): Promise<void> {
    const key = keyOf(kind, input);
    if (this.#entries !== entries || entries.get(key)?.state !== 'wanted') return;
    const answer = this.#answer(kind, input, yardstick);
    entries.set(key, { state: 'computing', answer });
    const there = await answer.catch(() => undefined);
    // Whoever came for it meanwhile has it, or the error; else it is computed when it is wanted, and fails there.
    if (!there) entries.delete(key);
    else if (entries.has(key)) entries.set(key, { state: 'there', answer: there });
  }

  async #answer(kind: ProblemCase, input: SeededInput, yardstick: boolean): Promise<Answer> {
    const inputs = drawInputs(kind, input, this.#reference);
    return (await this.beside(kind, inputs, yardstick))!;
  }

  /**
   * What is right for these inputs, computed on threads of their own from now on, whatever this thread waits for.
   * Undefined: they are too small for that.
   */
  async beside(kind: ProblemCase, inputs: TensorsByName, yardstick: boolean): Promise<Answer | undefined> {
    if (kind.operation === 'own' || hasSmallTensor(kind)) return undefined;
    const [answers, plain] = await Promise.all([
      this.#reference.answersBeside(inputs, kind),
      yardstick && isPlainAttention(kind) ? this.#reference.plainBeside(inputs, kind) : undefined,
    ]);
    const output = outputOf(kind);
    return { inputs, answers, yardstick: plain && yardstickOf(this.#reference, { plain, answers, output }) };
  }
}

interface Wanted {
  kind: ProblemCase;
  input: SeededInput;
  yardstick: boolean;
}

function within(cases: readonly PreparedCase[]): Wanted[] {
  let elements = 0;
  return cases.flatMap(({ kind, inputs }) => {
    const each = elementsOf(kind);
    const rules = new Set<string>();
    return inputs.flatMap((input) => {
      const yardstick = !rules.has(input.rule.name);
      rules.add(input.rule.name);
      if (kind.operation === 'own' || hasSmallTensor(kind) || (elements += each) > MAX_ELEMENTS) return [];
      return [{ kind, input, yardstick }];
    });
  });
}

/** Sorts names, so that a case has exactly one key. */
const keyOf = ({ problem, dtype, values, tensors }: ProblemCase, { seed, rule }: SeededInput): string =>
  JSON.stringify([
    problem,
    dtype,
    Object.entries(values).toSorted(([a], [b]) => (a < b ? -1 : 1)),
    tensors.map(({ name }) => name),
    seed,
    rule,
  ]);

/** Elements of the largest tensor: a few queries may read very many keys. */
const elementsOf = ({ tensors }: ProblemCase): number => Math.max(...tensors.map(elementsOfTensor));

/** Tables and optional outputs are small everywhere, and take no time. */
const hasSmallTensor = ({ tensors }: ProblemCase): boolean =>
  tensors.some(
    ({ dtype, optional, ...tensor }) => dtype !== 'int32' && !optional && elementsOfTensor(tensor) < MIN_ELEMENTS,
  );
