import type { AttentionInputs, Reference } from '../driver/reference.ts';
import { elementsOf, emptyTensor, tensorOf, type TensorBits, type TensorKind } from '../driver/tensor-bits.ts';
import type { InputKind, ShapeFields } from '@flashcore/shared/kernels';
import type { InputRule, SeededInput } from '../messages/launchable.ts';
import { CounterRandom } from './random.ts';

/** N(0, 1) everywhere. */
export const NORMAL: InputRule = {
  name: 'normal',
  q: 'normal',
  k: 'normal',
  v: 'normal',
  logitScale: 1,
  valueScale: 1,
};

/** What draws normal values on all threads: an experiment draws 44 million, which take JavaScript two seconds. */
export type NormalDrawer = Pick<Reference, 'normal'>;

/**
 * Draws Q, K and V of a shape, rounded to the dtype, from a seed and a rule; with a drawer faster, and the same bits.
 * The same seed gives the same bits on every host.
 */
export function drawInputs(kind: TensorKind, input: SeededInput, drawer?: NormalDrawer): AttentionInputs {
  const { shape, dtype } = kind;
  const { rule, seed } = input;
  const directions = drawDirections(shape, seed);
  const draw = (tensor: InputKind, stream: number, scale: number): TensorBits => {
    const random = new CounterRandom(seed, stream);
    if (tensor === 'normal' && drawer)
      return drawer.normal(emptyTensor(kind), { dtype, key: random.key, stream: random.stream, scale });
    if (tensor === 'constant') return constantRows(kind, random, scale);
    if (tensor === 'one_hot') return oneHotRows(kind, random, scale);
    return tensorOf(drawTensor(shape, tensor, { random, scale, directions }), dtype);
  };
  return { dtype, Q: draw(rule.q, 1, rule.logitScale), K: draw(rule.k, 2, 1), V: draw(rule.v, 3, rule.valueScale) };
}

interface Drawing {
  random: CounterRandom;
  scale: number;
  /** A vector of 1 and -1 for each head, [B, H, D]: that of Q and that of K are the same. */
  directions: Float32Array;
}

function drawTensor(
  shape: ShapeFields,
  rule: Exclude<InputKind, 'constant' | 'one_hot'>,
  { random, scale, directions }: Drawing,
): Float32Array<ArrayBuffer> {
  const values = new Float32Array(elementsOf(shape));
  /** Noise of N(0, noise) everywhere, and `along(row)` times the head's direction. */
  const rows = (noise: number, along: (row: number, head: number) => number): void => {
    if (noise > 0) random.fillNormal(values, noise * scale);
    const { headDim, sequenceLength } = shape;
    for (let start = 0, row = 0; start < values.length; start += headDim, row += 1) {
      const head = Math.floor(row / sequenceLength);
      const amount = along(row % sequenceLength, head) * scale;
      for (let d = 0; d < headDim; d += 1) values[start + d]! += amount * directions[head * headDim + d]!;
    }
  };
  /** Along the direction of Q, the logits that this gives: Q K^T / sqrt(D) has D addends. */
  const logit = (wanted: number): number => wanted / Math.sqrt(shape.headDim);
  const last = Math.max(1, shape.sequenceLength - 1);
  switch (rule) {
    case 'normal':
      random.fillNormal(values, scale);
      break;
    case 'along':
      rows(0, () => 1);
      break;
    case 'near':
      rows(1 / 4, () => 1);
      break;
    case 'either_way':
      rows(0, () => (random.below(2) === 0 ? 1 : -1));
      break;
    case 'rising':
      rows(1 / 4, (row) => logit(MOST_LOGIT * ((2 * row) / last - 1)));
      break;
    case 'falling':
      rows(1 / 4, (row) => logit(MOST_LOGIT * (1 - (2 * row) / last)));
      break;
    case 'far':
      rows(1, () => logit(FAR_LOGIT));
      break;
    case 'one_far': {
      // The first head's is its last key: what leaves a tail out loses it.
      const keys = directionsOf(shape).map((head) => (head === 0 ? last : random.below(shape.sequenceLength)));
      rows(1, (row, head) => (row === keys[head] ? logit(FAR_LOGIT) : 0));
      break;
    }
    case 'two_steps':
      rows(0, (row) => (row < (3 / 8) * shape.sequenceLength ? 0 : logit(LOW_STEP_LOGIT)));
      break;
    case 'largest':
      for (let i = 0; i < values.length; i += 1) values[i] = random.below(2) === 0 ? LARGEST_FP16 : -LARGEST_FP16;
      break;
    case 'subnormal':
      for (let i = 0; i < values.length; i += 1) values[i] = (random.below(2047) - 1023) * SMALLEST_FP16;
      break;
  }
  return values;
}

/** From minus to plus this, so that a maximum of the first 64 or 128 keys lies far more than 88 below the last. */
const MOST_LOGIT = 100;
/** Where exp() is infinite in fp32, or zero; a sum of fp16 logits is still far from its largest value. */
const FAR_LOGIT = 120;
/** Weights of 0.05, which a sum in fp16 no longer takes up once it has passed 128. */
const LOW_STEP_LOGIT = Math.log(0.05);
const LARGEST_FP16 = 65_504;
const SMALLEST_FP16 = 2 ** -24;

const directionsOf = ({ batch, heads }: ShapeFields): number[] =>
  Array.from({ length: batch * heads }, (_, head) => head);

function drawDirections(shape: ShapeFields, seed: string): Float32Array {
  const random = new CounterRandom(seed, 4);
  return Float32Array.from({ length: shape.batch * shape.heads * shape.headDim }, () =>
    random.below(2) === 0 ? 1 : -1,
  );
}

/** Every row of a head is the same row; heads differ. */
function constantRows(kind: TensorKind, random: CounterRandom, scale: number): TensorBits {
  const { headDim, sequenceLength } = kind.shape;
  const tensor = emptyTensor(kind);
  const row = new Float32Array(headDim);
  for (let head = 0; head < tensor.length; head += sequenceLength * headDim) {
    random.fillNormal(row, scale);
    tensor.set(tensorOf(row, kind.dtype), head);
    for (let filled = headDim; filled < sequenceLength * headDim; filled *= 2)
      tensor.copyWithin(head + filled, head, head + Math.min(filled, sequenceLength * headDim - filled));
  }
  return tensor;
}

function oneHotRows(kind: TensorKind, random: CounterRandom, scale: number): TensorBits {
  const { headDim } = kind.shape;
  const tensor = emptyTensor(kind);
  const [one] = tensorOf(Float32Array.of(scale), kind.dtype);
  for (let row = 0; row < tensor.length; row += headDim) tensor[row + random.below(headDim)] = one!;
  return tensor;
}
