/** The oracle's outputs for problems with tables, several outputs and derived inputs, compared with plain loops. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { NORMAL, drawInputs } from '@flashcore/runner/testing';
import {
  elementsOfTensor,
  installedProblem,
  parseProblem,
  problemCase,
  type ProblemCase,
} from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { ROOT } from '../support/home.ts';
import { compiledReference } from '../support/reference.ts';

const reference = await compiledReference();

type Values = ArrayLike<number>;
/** One vector of a tensor. */
type Row = (column: number) => number;

/** The inputs drawn for a case, and the oracle's outputs. */
function read(of: ProblemCase, seed: string): { values: Record<string, Values>; want: (name: string) => Values } {
  const inputs = drawInputs(of, { seed, rule: NORMAL }, reference);
  const values = Object.fromEntries(
    of.tensors
      .filter(({ direction }) => direction === 'in')
      .map(({ name, dtype }): [string, Values] => {
        const { buffer } = inputs[name]!;
        if (dtype === 'int32') return [name, new Int32Array(buffer)];
        return [name, dtype === 'fp32' ? new Float32Array(buffer) : new Float16Array(buffer)];
      }),
  );
  const answers = reference.answers(inputs, of);
  return { values, want: (name) => answers.get(name)!.want };
}

const caseOf = (id: string, values: Record<string, number>): ProblemCase =>
  problemCase(installedProblem(id), values, 'fp16', new Set(['LSE']));

const dot = (a: Row, b: Row, columns: number): number => {
  let sum = 0;
  for (let d = 0; d < columns; d += 1) sum += a(d) * b(d);
  return sum;
};

interface Attended {
  q: Row;
  keys: readonly { k: Row; v: Row }[];
  columns: number;
  valueColumns: number;
  scale: number;
}

/** O and LSE of one query over the keys that the query sees. */
function attended({ q, keys, columns, valueColumns, scale }: Attended): { o: number[]; lse: number } {
  const logits = keys.map(({ k }) => Math.fround(scale) * dot(q, k, columns));
  const lse = keys.length === 0 ? -Infinity : Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
  const o = Array.from({ length: valueColumns }, (_, d) =>
    keys.reduce((sum, { v }, index) => sum + Math.exp(logits[index]! - lse) * v(d), 0),
  );
  return { o, lse };
}

const largestError = (got: Values, want: Values): number =>
  Math.max(...Array.from(got, (value, index) => (value === want[index] ? 0 : Math.abs(value - want[index]!))));
const rowOf =
  (values: Values, index: number, columns: number): Row =>
  (column) =>
    values[index * columns + column]!;

test.each([
  ['attention_decode', { B: 6, H: 4, Hkv: 2, S: 2, Skv: 70, D: 8 }],
  ['attention_decode_paged', { B: 6, H: 4, Hkv: 2, S: 2, Skv: 33, page: 4, D: 8 }],
  ['attention_decode_paged', { B: 4, H: 2, Hkv: 1, S: 1, Skv: 9, page: 1, D: 8 }],
  ['mla_decode', { B: 3, H: 2, S: 2, Skv: 20, page: 16 }],
])('O and LSE of %s with %o equal those of plain loops', (id, given) => {
  const of = caseOf(id, given);
  const { values, want } = read(of, '5eed');
  const { B, H, Hkv = 1, S, Skv, page = Skv!, D, Dv = D!, scale } = of.values as Record<string, number>;
  const { Q, KV, K = KV, V = KV, lengths, table } = values;
  const ofSequence = Math.ceil(Skv! / page);
  const o = new Float64Array(B! * S! * H! * Dv);
  const lse = new Float64Array(B! * H! * S!);
  for (let b = 0; b < B!; b += 1)
    for (let i = 0; i < S!; i += 1)
      for (let h = 0; h < H!; h += 1) {
        const seen = Math.max(0, lengths![b]! - S! + i + 1);
        const keys = Array.from({ length: seen }, (_, j) => {
          const row = (table ? table[b * ofSequence + Math.floor(j / page)]! : b) * page + (j % page);
          const index = row * Hkv + Math.floor(h / (H! / Hkv));
          return { k: rowOf(K!, index, D!), v: rowOf(V!, index, D!) };
        });
        const query = (b * S! + i) * H! + h;
        const found = attended({ q: rowOf(Q!, query, D!), keys, columns: D!, valueColumns: Dv, scale: scale! });
        o.set(found.o, query * Dv);
        lse[(b * H! + h) * S! + i] = found.lse;
      }
  expect([largestError(want('O'), o), largestError(want('LSE'), lse)].every((error) => error < 1e-9)).toBe(true);
  expect(lse).toContain(-Infinity);
});

test.each([0, 1])('O and LSE of attention_varlen with causal %d equal those of plain loops', (causal) => {
  const of = caseOf('attention_varlen', { B: 7, T: 160, H: 4, Hkv: 2, D: 8, causal });
  const { values, want } = read(of, '5eed');
  const { Q, K, V, offsets } = values;
  const o = new Float64Array(160 * 4 * 8);
  const lse = new Float64Array(4 * 160);
  for (let b = 0; b < 7; b += 1)
    for (let token = offsets![b]!; token < offsets![b + 1]!; token += 1)
      for (let h = 0; h < 4; h += 1) {
        const end = causal ? token + 1 : offsets![b + 1]!;
        const keys = Array.from({ length: end - offsets![b]! }, (_, j) => {
          const index = (offsets![b]! + j) * 2 + Math.floor(h / 2);
          return { k: rowOf(K!, index, 8), v: rowOf(V!, index, 8) };
        });
        const query = token * 4 + h;
        const scale = of.values['scale']!;
        const found = attended({ q: rowOf(Q!, query, 8), keys, columns: 8, valueColumns: 8, scale });
        o.set(found.o, query * 8);
        lse[h * 160 + token] = found.lse;
      }
  expect([largestError(want('O'), o), largestError(want('LSE'), lse)].every((error) => error < 1e-9)).toBe(true);
});

test.each([
  { B: 2, H: 4, Hkv: 2, S: 9, Skv: 9, D: 8, causal: 1 },
  { B: 1, H: 2, Hkv: 2, S: 5, Skv: 11, D: 8, causal: 2 },
])('dQ, dK and dV of attention_backward with %o, and its inputs O and LSE, equal those of plain loops', (given) => {
  const of = caseOf('attention_backward', given);
  const { values, want } = read(of, '5eed');
  const { B, H, Hkv, S, Skv, D, causal, scale } = of.values as Record<string, number>;
  const { Q, K, V, O, LSE, dO } = values;
  const gradient = (name: string) => new Float64Array(elementsOfTensor(of.tensors.find((each) => each.name === name)!));
  const [dQ, dK, dV] = [gradient('dQ'), gradient('dK'), gradient('dV')];
  const [o, lse] = [gradient('O'), gradient('LSE')];
  for (let row = 0; row < B! * H! * S!; row += 1) {
    const [i, head] = [row % S!, Math.floor(row / S!)];
    const kvHead = Math.floor(head / H!) * Hkv! + Math.floor((head % H!) / (H! / Hkv!));
    const seen = Math.min(Skv!, causal === 2 ? i + Skv! - S! + 1 : i + 1);
    const keys = Array.from({ length: seen }, (_, j) => {
      const index = kvHead * Skv! + j;
      return { index, k: rowOf(K!, index, D!), v: rowOf(V!, index, D!) };
    });
    const q = rowOf(Q!, row, D!);
    const forward = attended({ q, keys, columns: D!, valueColumns: D!, scale: scale! });
    o.set(forward.o, row * D!);
    lse[row] = forward.lse;
    const upstream = rowOf(dO!, row, D!);
    const delta = dot(upstream, (d) => forward.o[d]!, D!);
    for (const { index, k, v } of keys) {
      const p = Math.exp(Math.fround(scale!) * dot(q, k, D!) - forward.lse);
      const dS = p * (dot(upstream, v, D!) - delta) * Math.fround(scale!);
      for (let d = 0; d < D!; d += 1) {
        dQ[row * D! + d]! += dS * k(d);
        dK[index * D! + d]! += dS * q(d);
        dV[index * D! + d]! += p * upstream(d);
      }
    }
  }
  const errors = [largestError(want('dQ'), dQ), largestError(want('dK'), dK), largestError(want('dV'), dV)];
  expect(errors.every((error) => error < 1e-9)).toBe(true);
  // These inputs are the forward pass's outputs, rounded to fp16 and fp32.
  expect(largestError(O!, o)).toBeLessThan(2e-3);
  expect(largestError(LSE!, lse)).toBeLessThan(1e-6);
});

/** A problem like attention_backward whose forward pass also has sinks, ALiBi and a bias. */
const WITH_MORE = readFileSync(join(ROOT, 'problems/attention_backward/problem.yaml'), 'utf8')
  .replace(
    '  dQ: { out:',
    `  sink_logits: { in: [H], dtype: fp32, role: sink }
  slopes: { in: [H], dtype: fp32, role: slope }
  bias_values: { in: [B, H, S, Skv], dtype: fp32, role: bias }
  dSinks: { out: [H], dtype: fp32 }
  dQ: { out:`,
  )
  .replace(
    '  d_o: ',
    `  sinks: "sink_logits[h]"
  alibi_slopes: "slopes[h]"
  bias: "bias_values[b h s k]"
  d_sinks: "dSinks[h]"
  d_o: `,
  );

test.each([
  { B: 2, H: 4, Hkv: 2, S: 9, Skv: 9, D: 8, causal: 1 },
  { B: 1, H: 2, Hkv: 1, S: 5, Skv: 11, D: 8, causal: 0 },
])('gradients of a backward pass with sinks, ALiBi and a bias equal those of plain loops: %o', (given) => {
  const of = problemCase(parseProblem(WITH_MORE, 'problem.yaml'), given, 'fp32');
  const inputs = drawInputs(of, { seed: '5eed', rule: NORMAL }, reference);
  const floats = (name: string): Float32Array => new Float32Array(inputs[name]!.buffer);
  const [q, k, v, upstream] = [floats('Q'), floats('K'), floats('V'), floats('dO')];
  const [sink, slope, bias] = [floats('sink_logits'), floats('slopes'), floats('bias_values')];
  expect(bias.some((each) => each === -Infinity)).toBe(true);
  const { B, H, Hkv, S, Skv, D } = given;
  const scale = Math.fround(1 / Math.sqrt(D));
  const wanted = {
    dSinks: new Float64Array(H),
    dQ: new Float64Array(q.length),
    dK: new Float64Array(k.length),
    dV: new Float64Array(v.length),
  };
  const along = (a: Float32Array, at: number, b: Float32Array, bAt: number) => {
    let sum = 0;
    for (let d = 0; d < D; d += 1) sum += a[at * D + d]! * b[bAt * D + d]!;
    return sum;
  };
  for (let row = 0; row < B * H * S; row += 1) {
    const [i, head] = [row % S, Math.floor(row / S) % H];
    const first = (Math.floor(row / S / H) * Hkv + Math.floor(head / (H / Hkv))) * Skv;
    const logits = Array.from(
      { length: given.causal ? i + 1 : Skv },
      (_, j) => scale * along(q, row, k, first + j) - slope[head]! * Math.abs(i - j) + bias[row * Skv + j]!,
    );
    const most = Math.max(sink[head]!, ...logits);
    const weights = logits.map((logit) => Math.exp(logit - most));
    const sinkWeight = Math.exp(sink[head]! - most);
    const total = weights.reduce((sum, each) => sum + each, sinkWeight);
    const upstreamOf = weights.map((_, j) => along(upstream, row, v, first + j));
    const delta = weights.reduce((sum, weight, j) => sum + (weight / total) * upstreamOf[j]!, 0);
    for (const [j, weight] of weights.entries()) {
      const ofLogit = (weight / total) * (upstreamOf[j]! - delta);
      for (let d = 0; d < D; d += 1) {
        wanted.dV[(first + j) * D + d]! += (weight / total) * upstream[row * D + d]!;
        wanted.dQ[row * D + d]! += scale * ofLogit * k[(first + j) * D + d]!;
        wanted.dK[(first + j) * D + d]! += scale * ofLogit * q[row * D + d]!;
      }
    }
    wanted.dSinks[head]! -= (sinkWeight / total) * delta;
  }
  const answers = reference.answers(inputs, of);
  for (const [name, values] of Object.entries(wanted))
    expect([name, largestError(answers.get(name)!.want, values)]).toEqual([
      name,
      expect.toSatisfy((error: number) => error < 1e-9),
    ]);
});

test('a table with fewer rows than sequences is refused before the oracle runs', () => {
  const of = caseOf('attention_decode', { B: 6, H: 2, Skv: 9, D: 8 });
  const inputs = drawInputs(of, { seed: '5eed', rule: NORMAL });
  const tensors = of.tensors.map((tensor) => (tensor.name === 'lengths' ? { ...tensor, dims: [5] } : tensor));
  expect(() => reference.answers(inputs, { ...of, tensors })).toThrow(
    'a table of attention_decode must have 6 rows, got 5',
  );
});

/**
 * The merge problem as FlashInfer has it: other order of dimensions, LSE in base 2, and splits in the kernel's dtype.
 */
const FLASHINFER = readFileSync(join(ROOT, 'problems/merge/problem.yaml'), 'utf8')
  .replace('in: [splits, B, S, H, D], dtype: fp32', 'in: [B, S, splits, H, D], dtype: same_as(O)')
  .replace('p b s h d', 'b s p h d')
  .replace('in: [splits, B, H, S]', 'in: [B, S, splits, H]')
  .replace('p b h s', 'b s p h')
  .replace('op: merge', 'op: merge\n  lse_base: 2');

test.each([
  ['merge', undefined],
  ['merge as in FlashInfer', FLASHINFER],
])('O and LSE of %s equal those of plain loops, and splits without keys have NaN', (_, text) => {
  const [splits, B, S, H, D] = [5, 2, 3, 4, 8];
  const problem = text === undefined ? installedProblem('merge') : parseProblem(text, 'problem.yaml');
  const of = problemCase(problem, { splits, B, S, H, D }, 'fp16');
  const { values, want } = read(of, '5eed');
  const base = text === undefined ? Math.E : 2;
  const o = new Float64Array(B * S * H * D);
  const lse = new Float64Array(B * H * S);
  const empty: number[] = [];
  for (let b = 0; b < B; b += 1)
    for (let s = 0; s < S; s += 1)
      for (let h = 0; h < H; h += 1) {
        const parts = Array.from({ length: splits }, (_each, p) => {
          const [oRow, lseRow] =
            text === undefined
              ? [((p * B + b) * S + s) * H + h, ((p * B + b) * H + h) * S + s]
              : [((b * S + s) * splits + p) * H + h, ((b * S + s) * splits + p) * H + h];
          return { v: rowOf(values['O_splits']!, oRow, D), lse: values['LSE_splits']![lseRow]! };
        });
        const seen = parts.filter((part) => part.lse > -Infinity);
        empty.push(splits - seen.length);
        for (const { v } of parts.filter((part) => part.lse === -Infinity)) expect(v(D - 1)).toBeNaN();
        const total = seen.reduce((sum, part) => sum + base ** part.lse, 0);
        lse[(b * H + h) * S + s] = Math.log(total) / Math.log(base);
        for (let d = 0; d < D; d += 1)
          o[((b * S + s) * H + h) * D + d] = seen.reduce(
            (sum, { v, lse: part }) => sum + (base ** part / total) * v(d),
            0,
          );
      }
  expect([largestError(want('O'), o), largestError(want('LSE'), lse)].every((error) => error < 1e-9)).toBe(true);
  expect(new Set(empty)).toEqual(new Set([splits, splits - 1, ...empty]));
  expect(lse).toContain(-Infinity);
  const timed = drawInputs(of, { seed: '5eed', rule: NORMAL, evenLengths: true }, reference);
  expect(new Float32Array(timed['LSE_splits']!.buffer).every(Number.isFinite)).toBe(true);
});

const SELECTED = readFileSync(join(ROOT, 'problems/attention_selected/problem.yaml'), 'utf8');
const WITHOUT_HEADS = SELECTED.replace(/.*lists_of_next_head.*\n/, '');
/**
 * Two forms of lists: one list per sequence; and one per 4 queries for all heads, with its dimensions in a different
 * order.
 */
const OF_SEQUENCES = WITHOUT_HEADS.replace(/.*lists_of_next_query.*\n/, '')
  .replace('in: [B, S, Hkv, topk]', 'in: [B, topk]')
  .replace('selected[b s h k]', 'selected[b k]');
const OF_BLOCKS = WITHOUT_HEADS.replace(/.*lists_of_next_query.*\n/, '')
  .replace('in: [B, S, Hkv, topk]', "in: ['ceil(S / 4)', B, topk]")
  .replace('{ keys: Skv }', '{ keys: Skv, queries: 4 }')
  .replace('selected[b s h k]', 'selected[s b k]');
/** All sequences' lists select rows of one pool, as in DeepSeek's kernels. */
const OF_POOL = SELECTED.replace('K: { in: [B, Skv,', 'K: { in: [Skv,')
  .replace('V: { in: [B, Skv,', 'V: { in: [Skv,')
  .replace('"K[b s h d]"', '"K[s h d]"')
  .replace('"V[b s h d]"', '"V[s h d]"')
  .replace('  - { flip: B, of: [V, O] }\n', '');

interface QueryPlace {
  b: number;
  s: number;
  h: number;
}

test.each<[string, string, (at: QueryPlace) => number]>([
  ['each query and head', SELECTED, ({ b, s, h }) => (b * 9 + s) * 2 + h],
  ['each sequence', OF_SEQUENCES, ({ b }) => b],
  ['each query and head in one pool', OF_POOL, ({ b, s, h }) => (b * 9 + s) * 2 + h],
  ['each block of queries', OF_BLOCKS, ({ b, s }) => Math.floor(s / 4) * 3 + b],
])('O and LSE of attention with selected keys for %s equal those of plain loops', (_, text, listOf) => {
  const [B, S, H, Hkv, Skv, topk, D, Dv] = [3, 9, 4, 2, 20, 12, 8, 6];
  const problem = parseProblem(text, 'problem.yaml');
  const of = problemCase(problem, { B, S, H, Hkv, Skv, topk, D, Dv }, 'fp16', new Set(['LSE']));
  const { values, want } = read(of, '5eed');
  const { Q, K, V, selected } = values;
  const o = new Float64Array(B * S * H * Dv);
  const lse = new Float64Array(B * H * S);
  const counts = new Set<number>();
  for (let b = 0; b < B; b += 1)
    for (let s = 0; s < S; s += 1)
      for (let h = 0; h < H; h += 1) {
        const head = Math.floor(h / (H / Hkv));
        const list = listOf({ b, s, h: head }) * topk;
        const keys = Array.from(selected!)
          .slice(list, list + topk)
          .filter((key) => key !== -1)
          .map((key) => ((text === OF_POOL ? 0 : b * Skv) + key) * Hkv + head)
          .map((row) => ({ k: rowOf(K!, row, D), v: rowOf(V!, row, Dv) }));
        counts.add(keys.length);
        const query = (b * S + s) * H + h;
        const scale = of.values['scale']!;
        const found = attended({ q: rowOf(Q!, query, D), keys, columns: D, valueColumns: Dv, scale });
        o.set(found.o, query * Dv);
        lse[(b * H + h) * S + s] = found.lse;
      }
  expect([largestError(want('O'), o), largestError(want('LSE'), lse)].every((error) => error < 1e-9)).toBe(true);
  expect([0, 1, topk].every((count) => counts.has(count))).toBe(true);
});
