import { closeSync, openSync, writeSync } from 'node:fs';
import {
  DTYPES,
  type ProblemCase,
  type TensorDtype,
  type TensorExtent,
  elementsOfTensor,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Answers, Reference } from '../driver/reference.ts';
import { outputsOf, valueReader, type TensorBits, type TensorsByName } from '../driver/tensor-bits.ts';
import type { Executor } from '../messages/device.ts';
import type { InputRule } from '../messages/launchable.ts';
import type { Trial } from '../messages/measuring.ts';
import { drawInputs, NORMAL } from '../verify/inputs.ts';
import { answersOf } from '../verify/judgement.ts';
import { repeatedAnswers, repeatedTensors } from '../verify/repeated.ts';

/**
 * Sets of inputs of a case, each with its expected outputs. The outputs are in host memory, and on the device
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
  /** Whether the values may be doubled as the problem's symmetries say. Numbers near the ends of a dtype may not. */
  doubles: boolean;
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

/** Draws as many sets of N(0, 1) from a seed as time and memory allow, and at least one. */
export async function drawSets(timed: ProblemCase, drawing: Drawing): Promise<DrawnSets> {
  const most = MOST_SETS[timed.symmetries.length > 0 ? 'related' : 'apart'];
  const sets: DrawnSet[] = [];
  const started = performance.now();
  do sets.push(await drawSet(timed, { ...drawing, rule: NORMAL, index: sets.length }));
  while (sets.length < most && performance.now() - started < REFERENCE_MS && hasRoom(timed, sets.length));
  return together(timed, sets);
}

/** Draws the sets of a trial, one of each rule, as many as memory allows. */
export async function drawTrial(timed: ProblemCase, { rules, repeats }: Trial, drawing: Drawing): Promise<DrawnSets> {
  // A champion may have an output that the candidate, for which the trial was planned, does not have.
  const isWhole = outputsOf(timed).every(({ name }) => repeats?.tensors.some((tensor) => tensor.name === name));
  const drawnCase = repeats && isWhole ? repeats : timed;
  const sets: DrawnSet[] = [];
  for (const rule of rules) {
    if (sets.length > 0 && !hasRoom(timed, sets.length)) break;
    sets.push(await drawSet(drawnCase, { ...drawing, rule, index: sets.length }));
  }
  const repeating = { from: drawnCase, to: timed };
  return together(
    timed,
    sets.map(({ inputs, answers, doubles }) => ({
      inputs: repeatedTensors(inputs, repeating),
      answers: repeatedAnswers(answers, repeating),
      doubles,
    })),
  );
}

function hasRoom(timed: ProblemCase, sets: number): boolean {
  const elements = outputsOf(timed).reduce((sum, output) => sum + elementsOfTensor(output), 0);
  return (sets + 1) * elements <= MOST_ANSWERS;
}

interface DrawnSet {
  inputs: TensorsByName;
  answers: Answers;
  doubles: boolean;
}

async function drawSet(
  drawnCase: ProblemCase,
  { seed, reference, own, rule, index }: Drawing & { rule: InputRule; index: number },
): Promise<DrawnSet> {
  const input = { seed: `${seed}${index.toString(16)}`, rule, evenLengths: true };
  const inputs = drawInputs(drawnCase, input, reference);
  const answers = await answersOf(reference, drawnCase, { inputs, own });
  return { inputs, answers, doubles: rule === NORMAL || mayDouble(drawnCase, inputs, answers) };
}

/** Whether all numbers that the symmetries double stay within their dtypes. */
function mayDouble(drawnCase: ProblemCase, inputs: TensorsByName, answers: Answers): boolean {
  return drawnCase.tensors.every((tensor) => {
    const { name, dtype, direction } = tensor;
    const doublings = doublingsOf(drawnCase, tensor);
    if (doublings === 0 || dtype === 'int32') return true;
    const most = DTYPES[dtype].format.largest / 2 ** doublings;
    if (direction === 'out') return answers.get(name)!.want.every((value) => Math.abs(value) <= most);
    return isWithin(entryOf(inputs, name)!, dtype, most);
  });
}

/** A loop, because a cache has a hundred million elements. */
function isWithin(bits: TensorBits, dtype: TensorDtype, most: number): boolean {
  const valueAt = valueReader(bits, dtype);
  for (let index = 0; index < bits.length; ++index) if (Math.abs(valueAt(index)) > most) return false;
  return true;
}

const doublingsOf = ({ symmetries }: ProblemCase, { name }: TensorExtent): number =>
  symmetries.reduce((sum, { act, dims }) => sum + (act === 'double' ? (entryOf(dims, name)?.length ?? 0) : 0), 0);

function together(timed: ProblemCase, sets: readonly DrawnSet[]): DrawnSets {
  const outputs = outputsOf(timed);
  const answers = sets.map((each) => each.answers);
  return {
    sets: sets.map(({ inputs }) => inputs),
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
    doubles: sets.every(({ doubles }) => doubles),
  };
}

function joined(parts: readonly (Float32Array | Float64Array)[]): Float32Array {
  const elements = parts[0]!.length;
  const all = new Float32Array(parts.length * elements);
  for (const [index, part] of parts.entries()) all.set(part, index * elements);
  return all;
}

/** Tensors start at multiples of this. */
const ALIGNMENT = 16;

/**
 * Writes the first drawn set: the inputs, then the right outputs in fp32, both in the problem's order, without outputs
 * that only some kernels have. tools/sdpa.py reads the file.
 */
export function writeDrawn(
  path: string,
  { tensors }: ProblemCase,
  { sets, answers }: Pick<DrawnSets, 'sets' | 'answers'>,
): void {
  const inputs = tensors.filter(({ direction }) => direction === 'in').map(({ name }) => entryOf(sets[0]!, name)!);
  const outputs = tensors
    .filter(({ direction, optional }) => direction === 'out' && !optional)
    .map((output) => answers.get(output.name)!.subarray(0, elementsOfTensor(output)));
  const file = openSync(path, 'wx', 0o600);
  try {
    for (const { buffer, byteOffset, byteLength } of [...inputs, ...outputs]) {
      writeAll(file, new Uint8Array(buffer, byteOffset, byteLength));
      writeAll(file, new Uint8Array((ALIGNMENT - (byteLength % ALIGNMENT)) % ALIGNMENT));
    }
  } finally {
    closeSync(file);
  }
}

/** A single call writes at most 2 GiB. */
function writeAll(file: number, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length;)
    written += writeSync(file, bytes, written, Math.min(bytes.length - written, 2 ** 30));
}
