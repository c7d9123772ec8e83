/** Parts without keys, among the inputs of a merge of split-KV attention. */
import { type OperandAxis, type OperandName, type ProblemCase, type TensorDtype } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { stridesOf, tensorNamed, tensorOf, type TensorsByName } from '../driver/tensor-bits.ts';
import type { CounterRandom } from './random.ts';
import { nobodysElement } from './tables.ts';

/** On average, one of this many parts of a row has no key. */
const EMPTY_ONE_IN = 8;
/**
 * The three rows whose empty parts are fixed come after this many other rows, because in a case of a single row not all
 * parts may be empty.
 */
const ROWS_BEFORE = 5;

/**
 * Makes parts of rows empty: their LSE is minus infinity and their O is NaN, because a split that sees no key need not
 * write it. In one row of eight all parts are empty, in the next row all but the first, and in the one after that all
 * but the last. In other rows a random number decides.
 */
export function emptyParts(inputs: TensorsByName, of: ProblemCase, random: CounterRandom): void {
  const [o, lse] = [new Parts(of, 'o_parts'), new Parts(of, 'lse_parts')];
  const [oBits, lseBits] = [entryOf(inputs, o.name)!, entryOf(inputs, lse.name)!];
  const nan = nobodysElement(o.dtype);
  const [minusInfinity] = tensorOf(Float32Array.of(-Infinity), lse.dtype);
  const parts = lse.extent('p');
  let row = 0;
  for (let b = 0; b < lse.extent('b'); b += 1)
    for (let h = 0; h < lse.extent('h'); h += 1)
      for (let s = 0; s < lse.extent('s'); s += 1, row += 1)
        for (let p = 0; p < parts; p += 1) {
          const drawn = random.below(EMPTY_ONE_IN) === 0;
          if (!([true, p > 0, p < parts - 1][(row % EMPTY_ONE_IN) - ROWS_BEFORE] ?? drawn)) continue;
          lseBits[lse.at({ p, b, h, s })] = minusInfinity!;
          const first = o.at({ p, b, h, s });
          oBits.fill(nan, first, first + o.extent('d'));
        }
}

type Place = Readonly<Partial<Record<OperandAxis, number>>>;

/** A tensor of parts, by the meaning of its dimensions. */
class Parts {
  readonly name: string;
  readonly dtype: TensorDtype;
  readonly #axes: readonly OperandAxis[];
  readonly #dims: readonly number[];
  readonly #strides: readonly number[];

  constructor(of: ProblemCase, operand: OperandName) {
    const { tensor, axes } = of.operands.operands[operand]!;
    const { dims, dtype } = tensorNamed(of, tensor);
    this.name = tensor;
    this.dtype = dtype as TensorDtype;
    this.#axes = axes;
    this.#dims = dims;
    this.#strides = stridesOf({ dims });
  }

  extent(axis: OperandAxis): number {
    return this.#dims[this.#axes.indexOf(axis)] ?? 1;
  }

  /** Index of the first element of a row. */
  at(place: Place): number {
    return this.#axes.reduce((sum, axis, dim) => sum + (place[axis] ?? 0) * this.#strides[dim]!, 0);
  }
}
