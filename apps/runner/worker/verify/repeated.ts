/** The tensors of a large case, made by repeating those of a smaller case along axes of independent work. */
import type { ProblemCase } from '@flashcore/shared/kernels';
import type { Answers } from '../driver/reference.ts';
import { tensorNamed, type TensorBits, type TensorsByName } from '../driver/tensor-bits.ts';

interface Repeating {
  /** The case whose tensors are given. */
  from: ProblemCase;
  /**
   * The case whose tensors are wanted. Each of its extents is a multiple of the extent of `from`, or ends within a
   * repetition.
   */
  to: ProblemCase;
}

/** Tensors with the extents of `to`; the same tensors if `from` and `to` are one case. */
export function repeatedTensors(tensors: TensorsByName, { from, to }: Repeating): TensorsByName {
  if (from === to) return tensors;
  return Object.fromEntries(
    Object.entries(tensors).map(([name, bits]) => [name, repeated(bits, dimsOf(name, { from, to }))]),
  );
}

/** The answers to the tensors that repeatedTensors() returns. */
export function repeatedAnswers(answers: Answers, { from, to }: Repeating): Answers {
  if (from === to) return answers;
  return new Map(
    [...answers].map(([name, { want, rounding, ...rest }]) => {
      const dims = dimsOf(name, { from, to });
      const all = { want: repeated(want, dims), ...(rounding && { rounding: repeated(rounding, dims) }), ...rest };
      return [name, all] as const;
    }),
  );
}

interface Dims {
  from: readonly number[];
  to: readonly number[];
}

const dimsOf = (name: string, { from, to }: Repeating): Dims => ({
  from: tensorNamed(from, name).dims,
  to: tensorNamed(to, name).dims,
});

type Elements = TensorBits | Float32Array | Float64Array;

/** Element [i, j, …] of the result is element [i % from[0], j % from[1], …]. */
function repeated<Values extends Elements>(values: Values, { from, to }: Dims): Values {
  const size = (dims: readonly number[]): number => dims.reduce((product, extent) => product * extent, 1);
  const all = new (values.constructor as new (length: number) => Values)(size(to));
  const fill = (dim: number, source: number, target: number): void => {
    const [inner, outer] = [size(from.slice(dim + 1)), size(to.slice(dim + 1))];
    if (inner === outer) {
      const [length, wanted] = [from[dim]! * inner, to[dim]! * outer];
      for (let at = 0; at < wanted; at += length)
        all.set(values.subarray(source, source + Math.min(length, wanted - at)), target + at);
      return;
    }
    for (let index = 0; index < to[dim]!; index += 1)
      fill(dim + 1, source + (index % from[dim]!) * inner, target + index * outer);
  };
  fill(0, 0, 0);
  return all;
}
