import type { AttentionInputs, HalfBits, Reference } from '../driver/reference.ts';
import { elementsOf } from '../driver/reference.ts';
import type { InputKind, ShapeFields } from '@flashcore/shared/kernels';
import type { InputRule, SeededInput } from '../messages.ts';
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
 * Draws Q, K and V of a shape, fp16, from a seed and a rule; with a drawer faster, and the same bits. The same seed
 * gives the same bits on every host.
 */
export function drawInputs(shape: ShapeFields, input: SeededInput, drawer?: NormalDrawer): AttentionInputs {
  const { rule, seed } = input;
  const draw = (tensor: InputKind, stream: number, scale: number): HalfBits => {
    const random = new CounterRandom(seed, stream);
    if (tensor === 'normal' && drawer)
      return drawer.normal(new Uint16Array(elementsOf(shape)), { key: random.key, stream: random.stream, scale });
    return drawTensor(shape, tensor, random, scale);
  };
  return { Q: draw(rule.q, 1, rule.logitScale), K: draw(rule.k, 2, 1), V: draw(rule.v, 3, rule.valueScale) };
}

function drawTensor(shape: ShapeFields, rule: InputKind, random: CounterRandom, scale: number): HalfBits {
  const values = new Float32Array(elementsOf(shape));
  switch (rule) {
    case 'normal':
      random.fillNormal(values, scale);
      break;
    case 'constant':
      fillConstantRows(values, shape, random, scale);
      break;
    case 'one_hot':
      for (let row = 0; row < values.length; row += shape.headDim) values[row + random.below(shape.headDim)] = scale;
      break;
  }
  return new Uint16Array(new Float16Array(values).buffer);
}

/** Every row of a head is the same row; heads differ. */
function fillConstantRows(values: Float32Array, shape: ShapeFields, random: CounterRandom, scale: number): void {
  const row = new Float32Array(shape.headDim);
  const headElements = shape.sequenceLength * shape.headDim;
  for (let head = 0; head < values.length; head += headElements) {
    random.fillNormal(row, scale);
    for (let start = head; start < head + headElements; start += shape.headDim) values.set(row, start);
  }
}
