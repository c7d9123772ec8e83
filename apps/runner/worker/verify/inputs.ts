import type { AttentionInputs, HalfBits } from '../driver/reference.ts';
import { elementsOf } from '../driver/reference.ts';
import type { CaseShape, InputRule, SeededInput, TensorRule } from '../messages.ts';
import { CounterRandom } from './random.ts';

/** N(0, 1) everywhere. */
export const NORMAL: InputRule = { name: 'normal', q: 'normal', k: 'normal', v: 'normal', logitScale: 1, valueScale: 1 };

/** Draws Q, K and V of a shape, fp16, from a seed and a rule. The same seed gives the same bits on every host. */
export function drawInputs(shape: CaseShape, input: SeededInput): AttentionInputs {
  const { rule, seed } = input;
  return {
    Q: drawTensor(shape, rule.q, new CounterRandom(seed, 1), rule.logitScale),
    K: drawTensor(shape, rule.k, new CounterRandom(seed, 2), 1),
    V: drawTensor(shape, rule.v, new CounterRandom(seed, 3), rule.valueScale),
  };
}

function drawTensor(shape: CaseShape, rule: TensorRule, random: CounterRandom, scale: number): HalfBits {
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
function fillConstantRows(values: Float32Array, shape: CaseShape, random: CounterRandom, scale: number): void {
  const row = new Float32Array(shape.headDim);
  const headElements = shape.sequenceLength * shape.headDim;
  for (let head = 0; head < values.length; head += headElements) {
    random.fillNormal(row, scale);
    for (let start = head; start < head + headElements; start += shape.headDim) values.set(row, start);
  }
}
