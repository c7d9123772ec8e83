import { attentionCase, shapeOf, type ProblemCase, type TensorDtype } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Reference, ModelledAnswer } from '../driver/reference.ts';
import { matricesOf, outputOf, type TensorBits, type TensorsByName } from '../driver/tensor-bits.ts';
import type { InputRule } from '../messages/launchable.ts';
import type { DrawnSets } from './drawn-sets.ts';
import { drawInputs } from '../verify/inputs.ts';
import { hasRounding, yardstickOf, type Yardstick } from '../verify/reference-book.ts';

/**
 * A few heads of Q and of K and V, with the answer for every pair. The answers are in host memory, and on the device
 * only while outputs are compared.
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

interface Drawing {
  seed: string;
  /** One rule for all heads, or rules that the heads take in turn. */
  rules: readonly InputRule[];
  reference: Reference;
}

/** Draws the heads from a seed. The answers come from the CPU reference. */
export function drawHeads(attention: ProblemCase, { seed, rules, reference }: Drawing): DrawnHeads {
  const { dtype, values } = attention;
  const { heads: all, rows, columns } = matricesOf(outputOf(attention));
  const { qBases, kvBases } = drawnHeadCounts(all);
  const oneBatch = (heads: number): ProblemCase =>
    attentionCase(shapeOf({ B: 1, H: heads, S: rows, D: columns, causal: values['causal'] ?? 0 }), dtype);
  const headLength = rows * columns;
  // All rules share vectors, so that logits are just as large when a head of Q meets a head of K of another rule.
  const ofRule = (rule: InputRule, head: number): TensorsByName =>
    drawInputs(oneBatch(1), { seed: `${seed}${head.toString(16)}`, sharedSeed: seed, rule }, reference);
  const drawn =
    rules.length === 1
      ? [drawInputs(oneBatch(kvBases), { seed, rule: rules[0]! }, reference)]
      : Array.from({ length: kvBases }, (_, head) => ofRule(rules[head % rules.length]!, head));
  const [Q, K, V] = ['Q', 'K', 'V'].map((name) => joined(drawn.map((each) => entryOf(each, name)!))) as [
    TensorBits,
    TensorBits,
    TensorBits,
  ];
  const head = (tensor: TensorBits, index: number): TensorBits =>
    tensor.subarray(index * headLength, (index + 1) * headLength);
  const pairs = qBases * kvBases;
  const spread = (tensor: TensorBits, headOf: (pair: number) => number): TensorBits => {
    const all = new (tensor.constructor as typeof Uint16Array)(pairs * headLength);
    for (let pair = 0; pair < pairs; ++pair) all.set(head(tensor, headOf(pair)), pair * headLength);
    return all;
  };
  const answerOf = (pairs: TensorsByName, kind: ProblemCase): ModelledAnswer => {
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

/** Inputs of a launch, made from the drawn heads as launches are, with their answers. */
export function fullInput(attention: ProblemCase, drawn: DrawnHeads): Pick<DrawnSets, 'sets' | 'answers'> {
  const output = outputOf(attention);
  const { heads, rows, columns } = matricesOf(output);
  const headLength = rows * columns;
  const { qBases, kvBases } = drawn;
  const ofHeads = <Values extends TensorBits | Float32Array>(
    from: Values,
    headOf: (head: number) => number,
  ): Values => {
    const all = new (from.constructor as new (length: number) => Values)(heads * headLength);
    for (let head = 0; head < heads; ++head) {
      const first = headOf(head) * headLength;
      all.set(from.subarray(first, first + headLength), head * headLength);
    }
    return all;
  };
  const [q, kv] = [(head: number) => head % qBases, (head: number) => head % kvBases];
  return {
    sets: [{ Q: ofHeads(drawn.Q, q), K: ofHeads(drawn.K, kv), V: ofHeads(drawn.V, kv) }],
    answers: new Map([[output.name, ofHeads(drawn.answers, (head) => q(head) * kvBases + kv(head))]]),
  };
}

function joined(parts: readonly TensorBits[]): TensorBits {
  const [first] = parts as [TensorBits];
  const all = new (first.constructor as typeof Uint16Array)(parts.length * first.length);
  for (const [index, part] of parts.entries()) all.set(part, index * first.length);
  return all;
}
