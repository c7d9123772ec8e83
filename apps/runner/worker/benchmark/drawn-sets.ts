import { type ProblemCase, elementsOfTensor } from '@flashcore/shared/kernels';
import type { Reference } from '../driver/reference.ts';
import { outputOf, type TensorsByName } from '../driver/tensor-bits.ts';
import type { Executor } from '../messages/device.ts';
import { drawInputs, NORMAL } from '../verify/inputs.ts';
import { ownReference } from '../verify/own-reference.ts';

/** Inputs of a case, N(0, 1), each set with its expected output. The outputs stay in this process's memory. */
export interface DrawnSets {
  sets: readonly TensorsByName[];
  /** [sets, ...dims of the output]. */
  answers: Float32Array;
}

/** With symmetries a few sets give any number of launches; without, each launch of a graph wants its own. */
const MOST_SETS = { related: 3, apart: 16 };
/** Another set is drawn only while all references together took less than this. */
const REFERENCE_MS = 1_000;
/** Answers are uploaded after every sample. */
const MOST_ANSWERS = 16 * 1024 ** 2;

interface Drawing {
  seed: string;
  reference: Reference;
  /** Runs the problem's reference.cpp; undefined if the built-in oracle covers the problem. */
  own: Executor | undefined;
}

/** Draws sets by a seed, as many as time and memory allow, and at least one. */
export async function drawSets(timed: ProblemCase, { seed, reference, own }: Drawing): Promise<DrawnSets> {
  const elements = elementsOfTensor(outputOf(timed));
  const most = MOST_SETS[timed.symmetries.length > 0 ? 'related' : 'apart'];
  const sets: TensorsByName[] = [];
  const answers: (Float64Array | Float32Array)[] = [];
  const started = performance.now();
  do {
    const inputs = drawInputs(timed, { seed: `${seed}${sets.length.toString(16)}`, rule: NORMAL }, reference);
    sets.push(inputs);
    answers.push(await answerOf(timed, inputs, { reference, own }));
  } while (
    sets.length < most &&
    performance.now() - started < REFERENCE_MS &&
    (sets.length + 1) * elements <= MOST_ANSWERS
  );
  const all = new Float32Array(sets.length * elements);
  for (const [index, answer] of answers.entries()) all.set(answer, index * elements);
  return { sets, answers: all };
}

async function answerOf(
  timed: ProblemCase,
  inputs: TensorsByName,
  { reference, own }: Omit<Drawing, 'seed'>,
): Promise<Float64Array> {
  if (timed.operation === 'attention') return reference.fp64(inputs, timed);
  if (!own) throw new Error(`${timed.problem} has a reference of its own, and the request names no process for it`);
  return ownReference(own, timed, inputs);
}
