import { attentionCase, shapeOf, type ProblemCase, type TensorDtype } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Reference, RoundedAnswer } from '../driver/reference.ts';
import { matricesOf, outputOf, type TensorBits, type TensorsByName } from '../driver/tensor-bits.ts';
import { drawInputs, NORMAL } from '../verify/inputs.ts';
import { hasRounding, yardstickOf, type Yardstick } from '../verify/reference-book.ts';

/**
 * A few heads of Q and of K and V, drawn from N(0, 1), with the answer for every pair. The answers are in host memory,
 * and on the device only while outputs are compared.
 */
export interface DrawnHeads {
  dtype: TensorDtype;
  /** [qBases, S, D]. */
  Q: TensorBits;
  /** [kvBases, S, D]. */
  K: TensorBits;
  V: TensorBits;
  qBases: number;
  kvBases: number;
  /** [qBases, kvBases, S, D]. */
  answers: Float32Array;
  /** The error of each answer that rounding explains, as a standard deviation. */
  roundings: Float32Array;
  /** The error of plain attention on the first pair. */
  yardstick: Yardstick;
}

/**
 * Chooses how many heads of Q and of K and V to draw. The two numbers have no common divisor, and their product is at
 * least the number of heads of a launch. Head h of a launch is made from heads h % qBases and h % kvBases, so no two
 * heads of a launch have the same pair.
 */
export function drawnHeadCounts(heads: number): { qBases: number; kvBases: number } {
  const qBases = Math.ceil(Math.sqrt(heads));
  return { qBases, kvBases: qBases + 1 };
}

/** Draws the heads from a seed. The answers come from the CPU reference. */
export function drawHeads(attention: ProblemCase, seed: string, reference: Reference): DrawnHeads {
  const { dtype, values } = attention;
  const { heads: all, rows, columns } = matricesOf(outputOf(attention));
  const { qBases, kvBases } = drawnHeadCounts(all);
  const oneBatch = (heads: number): ProblemCase =>
    attentionCase(shapeOf({ B: 1, H: heads, S: rows, D: columns, causal: values['causal'] ?? 0 }), dtype);
  const inputs = drawInputs(oneBatch(kvBases), { seed, rule: NORMAL }, reference);
  const [Q, K, V] = ['Q', 'K', 'V'].map((name) => entryOf(inputs, name)!) as [TensorBits, TensorBits, TensorBits];
  const headLength = rows * columns;
  const head = (tensor: TensorBits, index: number): TensorBits =>
    tensor.subarray(index * headLength, (index + 1) * headLength);
  const pairs = qBases * kvBases;
  const spread = (tensor: TensorBits, headOf: (pair: number) => number): TensorBits => {
    const all = new (tensor.constructor as typeof Uint16Array)(pairs * headLength);
    for (let pair = 0; pair < pairs; ++pair) all.set(head(tensor, headOf(pair)), pair * headLength);
    return all;
  };
  const answerOf = (pairs: TensorsByName, kind: ProblemCase): Required<RoundedAnswer> => {
    const answer = reference.answers(pairs, kind).get(outputOf(kind).name)!;
    if (!hasRounding(answer)) throw new Error('plain attention has no rounding to be judged by');
    return answer;
  };
  const { want, rounding } = answerOf(
    {
      Q: spread(Q, (pair) => Math.floor(pair / kvBases)),
      K: spread(K, (pair) => pair % kvBases),
      V: spread(V, (pair) => pair % kvBases),
    },
    oneBatch(pairs),
  );
  const one = oneBatch(1);
  const first = { Q: head(Q, 0), K: head(K, 0), V: head(V, 0) };
  const yardstick = yardstickOf(reference, {
    plain: reference.plain(first, one),
    answers: new Map([
      [outputOf(one).name, { want: want.slice(0, headLength), rounding: rounding.slice(0, headLength) }],
    ]),
    output: outputOf(one),
  });
  return {
    dtype,
    Q: Q.slice(0, qBases * headLength),
    K,
    V,
    qBases,
    kvBases,
    answers: Float32Array.from(want),
    roundings: rounding,
    yardstick,
  };
}
