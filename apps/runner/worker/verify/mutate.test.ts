import { expect, test } from 'vitest';
import type { MutantChange, ProblemCase } from '@flashcore/shared/kernels';
import { tensorOf, valueReader } from '../driver/tensor-bits.ts';
import { mutatedOutputs } from './mutate.ts';

const KIND: ProblemCase = {
  problem: 'copied',
  operation: 'own',
  operands: { operands: {}, tables: {} },
  dtype: 'fp32',
  values: { N: 3 },
  flops: 2,
  bytes: 8,
  symmetries: [],
  tensors: [{ name: 'Y', direction: 'out', role: 'v', dims: [2, 3], dtype: 'fp32' }],
};
const VALUES = [500, -1.0625, 0.001, 17, 18, 2 ** -130];

test.each<[MutantChange, number[]]>([
  // e4m3: 3 bits after the leading one, ties to even, steps of 2 ** -9 below 2 ** -6, at most 448.
  [{ kind: 'round', tensor: 'Y', to: 'e4m3' }, [448, -1, 2 ** -9, 16, 18, 0]],
  [{ kind: 'flush', tensor: 'Y' }, [500, -1.0625, 0.001, 17, 18, 0]],
  [{ kind: 'clamp', tensor: 'Y', value: 17.5 }, [17.5, -1.0625, 0.001, 17, 17.5, 2 ** -130]],
  [{ kind: 'times', tensor: 'Y', value: 2 }, [1000, -2.125, 0.002, 34, 36, 2 ** -129]],
  [{ kind: 'constant', tensor: 'Y', value: 3 }, [3, 3, 3, 3, 3, 3]],
  [{ kind: 'shift', tensor: 'Y', dim: 1 }, [-1.0625, 0.001, 500, 18, 2 ** -130, 17]],
  [{ kind: 'shift', tensor: 'Y', dim: 0 }, [17, 18, 2 ** -130, 500, -1.0625, 0.001]],
  [{ kind: 'last', tensor: 'Y', dim: 1 }, [500, -1.0625, 0, 17, 18, 0]],
  [{ kind: 'unwritten', tensor: 'Y', part: 'element' }, [500, -1.0625, 0.001, 17, 18, Number.NaN]],
  [{ kind: 'unwritten', tensor: 'Y', part: 'row' }, [500, -1.0625, 0.001, Number.NaN, Number.NaN, Number.NaN]],
])('%j changes an output', (change, wanted) => {
  const outputs = { Y: tensorOf(Float32Array.from(VALUES), 'fp32') };
  const { Y } = mutatedOutputs({ name: 'mistake', about: '', change }, KIND, { outputs, poison: 0x7fbc });
  expect(Array.from(Y!, (_, index) => valueReader(Y!, 'fp32')(index))).toEqual(wanted.map(Math.fround));
});
