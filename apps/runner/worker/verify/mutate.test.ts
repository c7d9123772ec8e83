import { expect, test } from 'vitest';
import {
  attention,
  installedProblem,
  parseExpression,
  problemCase,
  type MutantChange,
  type ProblemCase,
} from '@flashcore/shared/kernels';
import { tensorOf, valueReader } from '../driver/tensor-bits.ts';
import { mutatedOutputs, mutatedQuestion } from './mutate.ts';

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
  // e4m3: 3 mantissa bits, ties to even, steps of 2 ** -9 below 2 ** -6, at most 448.
  [{ kind: 'round', tensor: 'Y', to: 'e4m3' }, [448, -1, 2 ** -9, 16, 18, 0]],
  [{ kind: 'flush', tensor: 'Y' }, [500, -1.0625, 0.001, 17, 18, 0]],
  [{ kind: 'clamp', tensor: 'Y', value: 17.5 }, [17.5, -1.0625, 0.001, 17, 17.5, 2 ** -130]],
  [{ kind: 'times', tensor: 'Y', value: parseExpression('N - 1') }, [1000, -2.125, 0.002, 34, 36, 2 ** -129]],
  [{ kind: 'constant', tensor: 'Y', value: 3 }, [3, 3, 3, 3, 3, 3]],
  [{ kind: 'shift', tensor: 'Y', dim: 1 }, [-1.0625, 0.001, 500, 18, 2 ** -130, 17]],
  [{ kind: 'shift', tensor: 'Y', dim: 0 }, [17, 18, 2 ** -130, 500, -1.0625, 0.001]],
  [{ kind: 'last', tensor: 'Y', dim: 1 }, [500, -1.0625, 0, 17, 18, 0]],
  [{ kind: 'unwritten', tensor: 'Y', part: 'element' }, [500, -1.0625, 0.001, 17, 18, Number.NaN]],
  [{ kind: 'unwritten', tensor: 'Y', part: 'row' }, [500, -1.0625, 0.001, Number.NaN, Number.NaN, Number.NaN]],
])('the mutant %j changes an output', (change, wanted) => {
  const outputs = { Y: tensorOf(Float32Array.from(VALUES), 'fp32') };
  const { Y } = mutatedOutputs({ name: 'mistake', about: '', change }, KIND, { outputs, poison: 0x7fbc });
  expect(Array.from(Y!, (_, index) => valueReader(Y!, 'fp32')(index))).toEqual(wanted.map(Math.fround));
});

test('a mutant of a table changes its entries, which must remain integers from 0 on', () => {
  const problem = installedProblem('attention_decode');
  const kind: ProblemCase = {
    ...KIND,
    tensors: [...KIND.tensors, { name: 'lengths', direction: 'in', role: 'v', dims: [3], dtype: 'int32' }],
  };
  const entries = (text: string) =>
    mutatedQuestion(
      problem,
      { name: 'mistake', about: '', change: { kind: 'entries', tensor: 'lengths', value: parseExpression(text) } },
      { kind, inputs: { lengths: Uint32Array.of(0, 1, 5) } },
    )!.inputs['lengths'];
  expect(entries('min(N, max(0, entry - 1))')).toEqual(Uint32Array.of(0, 0, 3));
  expect(() => entries('entry - 1')).toThrow(
    'mutants.mistake.entries: must be an integer of 0 to 2147483647, got -1 of the entry 0: bound it with min() and max()',
  );
});

test('an axis that a mutant enlarges repeats its elements, up to 128 times', () => {
  const kind = problemCase(attention(), { B: 1, H: 4, S: 1, D: 1, Hkv: 2, Skv: 1 }, 'fp32');
  const numbers = (count: number) =>
    tensorOf(
      Float32Array.from({ length: count }, (_, index) => index + 1),
      'fp32',
    );
  const inputs = { Q: numbers(4), K: numbers(2), V: numbers(2) };
  const asked = (values: Record<string, string>) => {
    const written = Object.entries(values).map(([name, text]) => ({ name, value: parseExpression(text) }));
    return mutatedQuestion(
      attention(),
      { name: 'mistake', about: '', change: { kind: 'set', values: written } },
      { kind, inputs },
    )!;
  };
  expect(asked({ Hkv: 'H' }).inputs['K']).toEqual(tensorOf(Float32Array.of(1, 2, 1, 2), 'fp32'));
  expect(() => asked({ Hkv: '129 * Hkv' })).toThrow('mutants.mistake.set.Hkv: must be an integer of 1 to 256');
  expect(() => asked({ Hkv: '64 * Hkv', Skv: '64' })).toThrow(
    "mutants.mistake.set: must leave K at most 128 times the case's elements, got 8192: bound the axes with min()",
  );
});

test('a mutant of lists of keys gives them other keys or none, or ignores them', () => {
  const problem = installedProblem('attention_selected');
  const kind = problemCase(problem, { B: 1, S: 1, H: 1, Skv: 4, topk: 3, D: 1 }, 'fp32');
  const inputs = { selected: Uint32Array.of(0, 3, 2 ** 32 - 1) };
  const mutated = (change: MutantChange) =>
    mutatedQuestion(problem, { name: 'mistake', about: '', change }, { kind, inputs })!;
  const entries = (text: string) =>
    mutated({ kind: 'entries', tensor: 'selected', value: parseExpression(text) }).inputs['selected'];
  expect(entries('entry == 0 ? -1 : max(0, entry)')).toEqual(Uint32Array.of(2 ** 32 - 1, 3, 0));
  expect(() => entries('entry - 1')).toThrow('must be an integer of -1 to 3, got -2 of the entry -1');
  const ignored = mutated({ kind: 'ignored', tensor: 'selected' });
  expect(ignored.kind.operands.operands).toEqual({ ...kind.operands.operands, selected: undefined });
  expect(ignored.inputs).toBe(inputs);
});
