/** Tests that the rules of inputs mean the same in every order of a tensor's dimensions. */
import { installedProblem, problemCase, type ProblemCase } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { tensorNamed, valueReader, type TensorBits } from '../driver/tensor-bits.ts';
import { NORMAL, drawInputs } from './inputs.ts';

const COLUMNS = 32;
const CASES = [
  ['attention', { B: 2, H: 4, Hkv: 2, S: 9 }],
  ['attention_decode', { B: 2, H: 4, Hkv: 2, S: 2, Skv: 9 }],
  ['attention_decode_paged', { B: 2, H: 4, Hkv: 2, S: 2, Skv: 9, page: 4 }],
  ['attention_selected', { B: 2, H: 4, Hkv: 2, S: 2, Skv: 9, topk: 5 }],
  ['attention_varlen', { B: 2, H: 4, Hkv: 2, T: 9 }],
  ['mla_decode', { B: 2, H: 4, S: 2, Skv: 9, page: 4, Dv: 16 }],
] as const;

type Row = { b: number; h: number; s: number; values: readonly number[] };

/** The rows of an operand, with the places that the problem's letters give them. */
function rowsOf(drawnCase: ProblemCase, bits: ReturnType<typeof drawInputs>, name: 'q' | 'k'): Row[] {
  const { tensor, axes } = drawnCase.operands.operands[name]!;
  const { dims } = tensorNamed(drawnCase, tensor);
  const valueAt = valueReader(bits[tensor]!, 'bf16');
  return Array.from({ length: bits[tensor]!.length / COLUMNS }, (_, row) => {
    const place = { b: 0, h: 0, s: 0 };
    let left = row;
    for (let axis = axes.length - 2; axis >= 0; axis -= 1) {
      place[axes[axis] as 'b' | 'h' | 's'] = left % dims[axis]!;
      left = Math.floor(left / dims[axis]!);
    }
    return { ...place, values: Array.from({ length: COLUMNS }, (_, d) => valueAt(row * COLUMNS + d)) };
  });
}

/**
 * All products of a query with the keys of its head and, if the keys are not in pages, of its sequence. NaN marks rows
 * that belong to no sequence.
 */
function products(drawnCase: ProblemCase, rule: { q: 'along' | 'channels_down'; k: 'far_steps' | 'channels_up' }) {
  const bits = drawInputs(drawnCase, { seed: 'c0de', rule: { ...NORMAL, ...rule }, evenLengths: true });
  const queries = rowsOf(drawnCase, bits, 'q');
  const keys = rowsOf(drawnCase, bits, 'k');
  const headsOf = (rows: Row[]): number => Math.max(...rows.map(({ h }) => h)) + 1;
  const group = headsOf(queries) / headsOf(keys);
  const isPaged = drawnCase.operands.tables.page_table !== undefined;
  return queries.flatMap((query) =>
    keys
      .filter(({ values }) => !values.some(Number.isNaN))
      .filter(({ b, h }) => h === Math.floor(query.h / group) && (isPaged || b === query.b))
      .map(({ values }) => values.reduce((sum, key, d) => sum + key * query.values[d]!, 0)),
  );
}

test.each(CASES)('%s: powers of two in the channels of K cancel out in every logit', (id, values) => {
  const drawnCase = problemCase(installedProblem(id), { D: COLUMNS, ...values }, 'bf16');
  const logits = products(drawnCase, { q: 'channels_down', k: 'channels_up' });
  expect(Math.max(...logits.map(Math.abs)) / Math.sqrt(COLUMNS)).toBeLessThan(8);
});

test.each([8, 32, 64, 96, 128, 192, 256])('far logits end between 1,350 and 2,000 in rows of %i columns', (D) => {
  const drawnCase = problemCase(installedProblem('attention'), { B: 1, H: 1, S: 400, D }, 'fp16');
  const { K } = drawInputs(drawnCase, { seed: 'c0de', rule: { ...NORMAL, q: 'along', k: 'far_steps' } });
  const most = Math.max(...Array.from(K!, (_, at) => Math.abs(valueReader(K!, 'fp16')(at)))) * Math.sqrt(D);
  expect([most > 1350, most <= 2000]).toEqual([true, true]);
});

test('sinks, biases and lone rows reach as far as logits, and sums of int8 have one sign', () => {
  const most = (bits: TensorBits, dtype: 'fp16' | 'fp32'): number =>
    Math.max(...Array.from(bits, (_, at) => valueReader(bits, dtype)(at)).filter(Number.isFinite));
  const forms = problemCase(installedProblem('attention'), { B: 2, H: 16, S: 8, D: 8, sinks: 1, bias: 1 }, 'fp16');
  const { sink_logits, bias_values } = drawInputs(forms, { seed: 'c0de', rule: NORMAL });
  expect([most(sink_logits!, 'fp32') > 600, most(sink_logits!, 'fp32') <= 2000]).toEqual([true, true]);
  expect(most(bias_values!, 'fp16')).toBeGreaterThan(1000);
  const { V } = drawInputs(problemCase(installedProblem('attention'), { B: 1, H: 2, S: 9, D: 8 }, 'fp16'), {
    seed: 'c0de',
    rule: { ...NORMAL, v: 'lone_row' },
  });
  const large = Array.from(V!, (_, at) => Math.abs(valueReader(V!, 'fp16')(at)) > 16_000);
  expect([large.filter(Boolean).length, large.slice(0, 8).includes(true)]).toEqual([8, false]);
  const product = problemCase(installedProblem('gemm'), { M: 3, N: 4, K: 16 }, 'int8');
  const { A, B } = drawInputs(product, { seed: 'c0de', rule: { ...NORMAL, q: 'one_sign', v: 'one_sign' } });
  const at = (bits: TensorBits, index: number): number => valueReader(bits, 'int8')(index);
  for (let k = 0; k < 16; k += 1) expect(at(A!, k) * at(B!, 16 + k)).toBeGreaterThan(64 * 64 - 1);
});

test('keys and values of a head may differ from others in one channel only', () => {
  const drawnCase = problemCase(installedProblem('attention'), { B: 1, H: 2, S: 9, D: 16 }, 'fp16');
  const rule = { ...NORMAL, k: 'lone_channel' as const, v: 'lone_upper_half' as const };
  const { K, V } = drawInputs(drawnCase, { seed: 'c0de', rule });
  const at = (bits: TensorBits, head: number, row: number, channel: number): number =>
    valueReader(bits, 'fp16')((head * 9 + row) * 16 + channel);
  const channels = Array.from({ length: 16 }, (_, channel) => channel);
  for (const head of [0, 1]) {
    expect(channels.filter((channel) => at(K!, head, 1, channel) !== at(K!, head, 0, channel))).toHaveLength(1);
    const large = (row: number): number[] =>
      channels.filter((channel) => Math.abs(at(V!, head, row, channel)) > 32_000);
    expect(large(0)).toHaveLength(1);
    expect(large(8)).toEqual(large(0));
  }
});

test.each(['fp16', 'bf16', 'fp32'] as const)('partial sums of %s cancel out exactly', (dtype) => {
  const sums = (a: readonly number[], b: readonly number[]): { most: number; sum: number } =>
    a.reduce(
      ({ most, sum }, value, k) => ({ sum: sum + value * b[k]!, most: Math.max(most, Math.abs(sum + value * b[k]!)) }),
      { most: 0, sum: 0 },
    );
  const rowOf = (bits: TensorBits, row: number): number[] =>
    Array.from({ length: 64 }, (_, d) => valueReader(bits, dtype)(row * 64 + d));
  const rule = { ...NORMAL, q: 'along' as const, logitScale: 64 };
  const attention = problemCase(installedProblem('attention'), { B: 1, H: 1, S: 9, D: 64 }, dtype);
  const { Q, K } = drawInputs(attention, { seed: 'c0de', rule: { ...rule, k: 'cancelling' } });
  const product = problemCase(installedProblem('gemm'), { M: 1, N: 9, K: 64 }, dtype);
  const { A, B } = drawInputs(product, { seed: 'c0de', rule: { ...rule, v: 'cancelling' } });
  for (const row of [0, 1, 8])
    for (const [a, b] of [
      [Q!, K!],
      [A!, B!],
    ] as const) {
      const { most, sum } = sums(rowOf(a, 0), rowOf(b, row));
      expect([most > 2 * 65_504, Math.abs(sum) < 4_096, sum % 64]).toEqual([true, true, sum < 0 ? -0 : 0]);
    }
});

test('an fp32 tensor of partial results has the exponents of the output', () => {
  const of = (dtype: 'fp16' | 'bf16'): number => {
    const merge = problemCase(installedProblem('merge'), { splits: 2, B: 1, H: 1, D: 32 }, dtype);
    const rule = { ...NORMAL, v: 'every_exponent' as const };
    const { O_splits } = drawInputs(merge, { seed: 'c0de', rule, evenLengths: true });
    return Math.max(...Array.from(O_splits!, (_, at) => valueReader(O_splits!, 'fp32')(at)));
  };
  expect([of('fp16') < 2 ** 15, of('bf16') >= 2 ** 100]).toEqual([true, true]);
});

test.each(CASES)('%s: keys in steps along a direction have logits in such steps', (id, values) => {
  const drawnCase = problemCase(installedProblem(id), { D: COLUMNS, ...values }, 'bf16');
  const logits = products(drawnCase, { q: 'along', k: 'far_steps' });
  expect(logits.filter((product) => product % (8 * COLUMNS) !== 0)).toEqual([]);
  expect(new Set(logits).size).toBeGreaterThan(2);
});
