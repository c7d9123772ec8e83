import { elementsOfTensor, isPlainAttention, type ProblemCase } from '@flashcore/shared/kernels';
import type { Answers, ModelledAnswer, Reference, RoundedAnswer } from '../driver/reference.ts';
import { outputOf, type OutputExtent, type TensorBits, type TensorsByName } from '../driver/tensor-bits.ts';
import type { SeededInput } from '../messages/launchable.ts';
import type { PreparedCase } from '../messages/verifying.ts';
import { drawInputs } from './inputs.ts';

/** Inputs with their right answers. */
export interface Answer {
  inputs: TensorsByName;
  answers: Answers;
  /** Set for the first input of each rule, if the case reports plain attention. */
  yardstick: Yardstick | undefined;
}

/** The error of attention in the plain arithmetic of the dtype. */
export interface Yardstick {
  /** max|plain - fp64|. */
  maxAbsError: number;
  /** The worst block's error, in units of its rounding. */
  roundingRatio: number;
}

interface PlainOutput {
  plain: TensorBits;
  answers: Answers;
  output: OutputExtent;
}

/** The error of plain attention. */
export function yardstickOf(reference: Reference, { plain, answers, output }: PlainOutput): Yardstick {
  const answer = answers.get(output.name)!;
  if (!hasRounding(answer)) throw new Error(`plain attention has no rounding of ${output.name} to be judged by`);
  return {
    maxAbsError: reference.maxAbsError(plain, answer.want, output.dtype),
    roundingRatio: reference.roundingRatio(plain, answer, output).ratio,
  };
}

export const hasRounding = (answer: RoundedAnswer): answer is ModelledAnswer => answer.rounding !== undefined;

/**
 * Maximum number of elements of the answers that are kept at a time: 18 bytes each, 24 for fp32. When a
 * caller takes one, the next is computed.
 */
const MAX_ELEMENTS = 24 * 1024 ** 2;
/** Smaller tensors are not computed ahead: a garbage collection may move them, and they take no time. */
const MIN_ELEMENTS = 1024;

type Entry = { state: 'wanted' } | { state: 'computing'; answer: Promise<Answer> } | { state: 'there'; answer: Answer };

/**
 * Computes inputs and references of upcoming verifications on the library's threads while a kernel is still compiled.
 * They are in this process's own memory, which was never the device's.
 */
export class ReferenceBook {
  readonly #reference: Reference;
  readonly #mostElements: number;
  #entries = new Map<string, Entry>();
  /** Elements of all answers that are computed or being computed, and were not taken yet. */
  #held = 0;
  /** Settles when the next answer leaves. */
  #left = Promise.withResolvers<void>();
  #working: Promise<void> = Promise.resolve();

  constructor(reference: Reference, mostElements: number = MAX_ELEMENTS) {
    this.#reference = reference;
    this.#mostElements = mostElements;
  }

  /** Starts computing these cases in their order, and forgets everything else. */
  prepare(cases: readonly PreparedCase[]): void {
    const entries = this.#forget();
    const wanted = wantedOf(cases).filter(({ kind }) => elementsOf(kind) <= this.#mostElements);
    for (const { kind, input } of wanted) entries.set(keyOf(kind, input), { state: 'wanted' });
    // One input is drawn on this thread while other threads compute the answer to the one before.
    const queue = wanted.values();
    const computeAll = async (): Promise<void> => {
      for (const each of queue) await this.#compute(entries, each);
    };
    this.#working = this.#working.then(async () => {
      await Promise.all([computeAll(), computeAll()]);
    });
  }

  /**
   * Returns the answer if it was computed, and waits for it if it is being computed. Undefined if it was not started,
   * so the caller must compute it. Each answer is returned only once.
   */
  async take(kind: ProblemCase, input: SeededInput): Promise<Answer | undefined> {
    const key = keyOf(kind, input);
    const entry = this.#entries.get(key);
    this.#entries.delete(key);
    if (entry && entry.state !== 'wanted') this.#release(kind);
    if (entry?.state === 'computing') return await entry.answer;
    return entry?.state === 'there' ? entry.answer : undefined;
  }

  /** The state of an answer's computation; undefined if the answer is not in the book. */
  stateOf(kind: ProblemCase, input: SeededInput): Entry['state'] | undefined {
    return this.#entries.get(keyOf(kind, input))?.state;
  }

  /** Forgets everything; settles when no computation is running. */
  async clear(): Promise<void> {
    this.#forget();
    await this.#working;
  }

  #forget(): Map<string, Entry> {
    this.#held = 0;
    this.#tellLeft();
    this.#entries = new Map();
    return this.#entries;
  }

  #release(kind: ProblemCase): void {
    this.#held -= elementsOf(kind);
    this.#tellLeft();
  }

  #tellLeft(): void {
    this.#left.resolve();
    this.#left = Promise.withResolvers();
  }

  async #compute(entries: Map<string, Entry>, { kind, input, yardstick }: Wanted): Promise<void> {
    const key = keyOf(kind, input);
    // No promise may settle between the last look and the reservation: another computation waits for the same room.
    while (this.#entries === entries && this.#held > 0 && this.#held + elementsOf(kind) > this.#mostElements)
      await this.#left.promise;
    if (this.#entries !== entries || entries.get(key)?.state !== 'wanted') return;
    this.#held += elementsOf(kind);
    const answer = this.#answer(kind, input, yardstick);
    entries.set(key, { state: 'computing', answer });
    const there = await answer.catch(() => undefined);
    // take() removes an entry, and its caller gets the answer or the error. A failed entry that nobody took is removed
    // here, so the answer is computed when it is needed and fails there.
    if (there && entries.has(key)) entries.set(key, { state: 'there', answer: there });
    else if (entries.delete(key) && this.#entries === entries) this.#release(kind);
  }

  async #answer(kind: ProblemCase, input: SeededInput, yardstick: boolean): Promise<Answer> {
    const inputs = drawInputs(kind, input, this.#reference);
    return (await this.beside(kind, inputs, yardstick))!;
  }

  /**
   * The right answer for these inputs. Other threads compute it from now on, even while this thread is blocked.
   * Undefined if a tensor is too small, or if the problem has its own reference.
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

function wantedOf(cases: readonly PreparedCase[]): Wanted[] {
  return cases.flatMap(({ kind, inputs, reportPlain }) => {
    const rules = new Set<string>();
    return inputs.flatMap((input) => {
      const yardstick = reportPlain && !rules.has(input.rule.name);
      rules.add(input.rule.name);
      if (kind.operation === 'own' || hasSmallTensor(input.repeats ?? kind)) return [];
      return [{ kind: input.repeats ?? kind, input, yardstick }];
    });
  });
}

/** The key of a case. Names are sorted so that a case has exactly one key. */
const keyOf = ({ problem, dtype, values, tensors }: ProblemCase, { seed, rule }: SeededInput): string =>
  JSON.stringify([
    problem,
    dtype,
    Object.entries(values).toSorted(([a], [b]) => (a < b ? -1 : 1)),
    tensors.map(({ name }) => name),
    seed,
    rule,
  ]);

/** Elements of the largest tensor. It need not be Q, because a few queries may read very many keys. */
const elementsOf = ({ tensors }: ProblemCase): number => Math.max(...tensors.map(elementsOfTensor));

/** Tables and optional outputs are ignored: they are small everywhere and take no time. */
const hasSmallTensor = ({ tensors }: ProblemCase): boolean =>
  tensors.some(
    ({ dtype, optional, ...tensor }) => dtype !== 'int32' && !optional && elementsOfTensor(tensor) < MIN_ELEMENTS,
  );
