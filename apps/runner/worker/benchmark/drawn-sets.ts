import { type ProblemCase, elementsOfTensor } from '@flashcore/shared/kernels';
import type { Answers, Reference } from '../driver/reference.ts';
import { outputsOf, type TensorsByName } from '../driver/tensor-bits.ts';
import type { Executor } from '../messages/device.ts';
import { drawInputs, NORMAL } from '../verify/inputs.ts';
import { answersOf } from '../verify/judgement.ts';

/**
 * Sets of inputs of a case, N(0, 1), each with its expected outputs. The outputs are in host memory, and on the device
 * only while outputs are compared.
 */
export interface DrawnSets {
  sets: readonly TensorsByName[];
  /** [sets, ...dims of the output], by output. */
  answers: ReadonlyMap<string, Float32Array>;
  /** The error of the answers that rounding explains, by output; absent for outputs for which that is not modelled. */
  roundings: ReadonlyMap<string, Float32Array>;
  /** Outputs whose rounding also explains errors beyond the tolerance. */
  explained: ReadonlySet<string>;
}

/** With symmetries, a few sets give any number of launches. Without symmetries, every launch of a graph needs a set. */
const MOST_SETS = { related: 3, apart: 16 };
/** A further set is drawn only if all references so far took less than this together. */
const REFERENCE_MS = 1_000;
/** Limit on the elements of all answers, because the answers are uploaded after every sample. */
const MOST_ANSWERS = 16 * 1024 ** 2;

interface Drawing {
  seed: string;
  reference: Reference;
  /** Runs the problem's reference.cpp; undefined if the built-in oracle covers the problem. */
  own: Executor | undefined;
}

/** Draws as many sets from a seed as time and memory allow, and at least one. */
export async function drawSets(timed: ProblemCase, { seed, reference, own }: Drawing): Promise<DrawnSets> {
  const outputs = outputsOf(timed);
  const elements = outputs.reduce((sum, output) => sum + elementsOfTensor(output), 0);
  const most = MOST_SETS[timed.symmetries.length > 0 ? 'related' : 'apart'];
  const sets: TensorsByName[] = [];
  const answers: Answers[] = [];
  const started = performance.now();
  do {
    const input = { seed: `${seed}${sets.length.toString(16)}`, rule: NORMAL, evenLengths: true };
    const inputs = drawInputs(timed, input, reference);
    sets.push(inputs);
    answers.push(await answersOf(reference, timed, { inputs, own }));
  } while (
    sets.length < most &&
    performance.now() - started < REFERENCE_MS &&
    (sets.length + 1) * elements <= MOST_ANSWERS
  );
  return {
    sets,
    answers: new Map(outputs.map(({ name }) => [name, joined(answers.map((each) => each.get(name)!.want))])),
    roundings: new Map(
      outputs.flatMap(({ name }) => {
        const parts = answers.flatMap((each) => each.get(name)!.rounding ?? []);
        return parts.length > 0 ? [[name, joined(parts)] as const] : [];
      }),
    ),
    explained: new Set(
      outputs.flatMap(({ name }) => (answers.every((each) => each.get(name)!.roundingExplains) ? [name] : [])),
    ),
  };
}

function joined(parts: readonly (Float32Array | Float64Array)[]): Float32Array {
  const elements = parts[0]!.length;
  const all = new Float32Array(parts.length * elements);
  for (const [index, part] of parts.entries()) all.set(part, index * elements);
  return all;
}
