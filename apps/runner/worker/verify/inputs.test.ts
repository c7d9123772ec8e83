/** Tests that the rules of inputs mean the same in every order of a tensor's dimensions. */
import { installedProblem, problemCase, type ProblemCase } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { tensorNamed, valueReader } from '../driver/tensor-bits.ts';
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

test.each(CASES)('%s: keys in steps along a direction have logits in such steps', (id, values) => {
  const drawnCase = problemCase(installedProblem(id), { D: COLUMNS, ...values }, 'bf16');
  const logits = products(drawnCase, { q: 'along', k: 'far_steps' });
  expect(logits.filter((product) => product % (8 * COLUMNS) !== 0)).toEqual([]);
  expect(new Set(logits).size).toBeGreaterThan(2);
});
