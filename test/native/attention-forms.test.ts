/**
 * Compares the oracle, called through its binding, with three plain loops: masks, head maps, lengths, sinks, ALiBi and
 * bias.
 */
import { drawInputs, NORMAL } from '@flashcore/runner/testing';
import {
  attention as attentionProblem,
  isSmall,
  parseProblem,
  parseShape,
  type Operand,
  problemCase,
  smallValues,
  valuesOf,
  type ElementDtype,
  type ProblemCase,
} from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { compiledReference } from '../support/reference.ts';

const reference = await compiledReference();

interface Extents {
  dims: (tensor: string) => readonly number[];
  value: (name: string) => number;
}

const extentsOf = ({ tensors, values }: ProblemCase): Extents => ({
  dims: (name) => tensors.find((tensor) => tensor.name === name)!.dims,
  value: (name) => values[name]!,
});

interface Inputs {
  halves: readonly Float16Array[];
  /** Undefined if the case has no sinks. */
  sinks: Float32Array | undefined;
  slopes: Float32Array | undefined;
  /** Returns the bias at [b, h, i, j]. Undefined if the case has no bias. */
  bias: ((at: readonly [number, number, number, number]) => number) | undefined;
}

/** Attention by its definition, in double precision. */
function byLoops(attention: ProblemCase, { halves: [Q, K, V], sinks, slopes, bias }: Inputs) {
  const { dims, value } = extentsOf(attention);
  const [B, H, S, D] = dims('Q') as [number, number, number, number];
  const [, Hkv, Skv, Dv] = dims('V') as [number, number, number, number];
  const [causal, window, softcap] = [value('causal'), value('window'), value('softcap')];
  const scale = Math.fround(value('scale'));
  const [out, lse]: [number[], number[]] = [[], []];
  for (const [b, h, i] of rowsOf(B, H, S)) {
    const head = b * Hkv + Math.floor(h / (H / Hkv));
    const position = causal === 2 ? i + Skv - S : i;
    const seen = Array.from({ length: Skv }, (_, j) => j).filter(
      (j) =>
        (causal === 0 || j <= position) && (window < 0 || j >= position - window) && bias?.([b, h, i, j]) !== -Infinity,
    );
    const logits = seen.map((j) => {
      let sum = 0;
      for (let d = 0; d < D; d += 1) sum += Q![((b * H + h) * S + i) * D + d]! * K![(head * Skv + j) * D + d]!;
      const logit = softcap === 0 ? sum * scale : softcap * Math.tanh((sum * scale) / softcap);
      return logit - (slopes?.[h] ?? 0) * Math.abs(position - j) + (bias?.([b, h, i, j]) ?? 0);
    });
    const sink = sinks?.[h] ?? -Infinity;
    const most = Math.max(...logits, sink);
    const weights = logits.map((logit) => Math.exp(logit - most));
    const total = weights.reduce((sum, weight) => sum + weight, Math.exp(sink - most));
    const inBase = attention.operands.lseBase2 ? 1 / Math.LN2 : 1;
    lse.push(seen.length === 0 && !sinks ? -Infinity : (most + Math.log(total)) * inBase);
    for (let d = 0; d < Dv; d += 1)
      out.push(
        seen.length === 0
          ? 0
          : seen.reduce((sum, j, index) => sum + weights[index]! * V![(head * Skv + j) * Dv + d]!, 0) / total,
      );
  }
  return { O: out, LSE: lse };
}

const rowsOf = (B: number, H: number, S: number): [number, number, number][] =>
  Array.from({ length: B * H * S }, (_, row) => [Math.floor(row / (H * S)), Math.floor(row / S) % H, row % S]);

test.each([
  '2x4x9x16',
  '2x4x9x16c',
  '2x6x9x16c,Hkv=2',
  '1x4x5x16,Hkv=1,Skv=23',
  '1x4x5x16,Skv=23,causal=2',
  '1x2x7x16,Skv=3,causal=2',
  '2x2x17x16c,window=4',
  '1x4x5x16,Skv=23,causal=2,window=3,Hkv=2,softcap=2.5',
  '1x2x9x16,Dv=24',
  '2x4x9x16,sinks=1',
  '1x4x5x16,Skv=23,causal=2,window=3,Hkv=2,softcap=2.5,sinks=1',
  '1x2x7x16,Skv=3,causal=2,sinks=1',
  '2x4x9x16,alibi=1',
  '1x4x5x16,Skv=23,causal=2,Hkv=2,softcap=2.5,alibi=1',
  '2x4x9x16,Skv=13,bias=1',
  '1x2x5x16,Skv=1,bias=1',
  '2x4x5x16,Skv=23,causal=2,window=5,Hkv=2,softcap=2.5,sinks=1,alibi=1,bias=1',
])("the oracle's O and LSE of %s equal those of plain loops", (text) => {
  expectLoops(problemCase(attentionProblem(), valuesOf(parseShape(text)), 'fp16', new Set(['LSE'])));
});

test('lse_base: 2 gives LSE as a base-2 logarithm', () => {
  const values = { B: 2, H: 4, S: 9, Skv: 13, Hkv: 2, D: 16, causal: 2 };
  const natural = problemCase(attentionProblem(), values, 'fp16', new Set(['LSE']));
  expectLoops({ ...natural, operands: { ...natural.operands, lseBase2: true } });
});

const FLAT = parseProblem(
  `id: flat
title: a paged cache with the tables of FlashInfer, and the columns of Q and K in two tensors
axes:
  B: { about: sequences }
  S: { about: rows of a sequence }
  page: { about: rows of a page }
attributes:
  scale: { value: 0.4, about: scale }
tensors:
  Q: { in: [B, 3, 8], dtype: [fp16], role: q }
  R: { in: [B, 3, 4], dtype: same_as(Q), role: q }
  K: { in: [B * ceil(S / page) + 1, page, 8], dtype: same_as(Q), role: k, rows: pages }
  KR: { in: [B * ceil(S / page) + 1, page, 4], dtype: same_as(Q), role: k, rows: pages }
  lengths: { in: [B], dtype: int32, draw: { lengths: { most: S, page: page } } }
  begins: { in: [B + 1], dtype: int32, draw: { page_offsets: { lengths: lengths, page: page } } }
  last: { in: [B], dtype: int32, draw: { last_pages: { lengths: lengths, page: page } } }
  pages: { in: [B * ceil(S / page)], dtype: int32, draw: { pages: { lengths: lengths, page: page, pool: B * ceil(S / page) + 1 } } }
  O: { out: [B, 3, 8], dtype: same_as(Q) }
  LSE: { out: [B, 3], dtype: fp32 }
reference:
  op: attention
  q: Q | R[b h d]
  k: K | KR[b s d]
  v: K[b s d]
  o: O[b h d]
  lse: LSE[b h]
  key_lengths: lengths
  page_table: pages
  page_offsets: begins
  lse_base: 2
work: { flops: 1 }
`,
  'problem.yaml',
);

test.each([1, 4])(
  "FlashInfer's tables, with columns in two tensors, are read as FlashInfer's references read them: page size %d",
  (page) => {
    const flat = problemCase(FLAT, { B: 7, S: 21, page }, 'fp16');
    const inputs = drawInputs(flat, { seed: 'f1a7', rule: NORMAL });
    const halves = (name: string) => new Float16Array(inputs[name]!.buffer);
    const [Q, R, K, KR] = ['Q', 'R', 'K', 'KR'].map(halves) as [Float16Array, Float16Array, Float16Array, Float16Array];
    const [begins, last, pages] = [inputs['begins']!, inputs['last']!, inputs['pages']!];
    const [O, LSE]: [number[], number[]] = [[], []];
    for (let b = 0; b < 7; b += 1) {
      const rows = Array.from(pages.slice(begins[b], begins[b + 1]), (place, index) =>
        Array.from(
          { length: begins[b]! + index + 1 < begins[b + 1]! ? page : last[b]! },
          (_, row) => place * page + row,
        ),
      ).flat();
      for (let h = 0; h < 3; h += 1) {
        const weights = rows.map((row) => {
          let sum = 0;
          for (let d = 0; d < 8; d += 1) sum += Q[(b * 3 + h) * 8 + d]! * K[row * 8 + d]!;
          for (let d = 0; d < 4; d += 1) sum += R[(b * 3 + h) * 4 + d]! * KR[row * 4 + d]!;
          return Math.exp(sum * Math.fround(0.4));
        });
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        LSE.push(Math.log2(total));
        for (let d = 0; d < 8; d += 1)
          O.push(rows.reduce((sum, row, index) => sum + weights[index]! * K[row * 8 + d]!, 0) / (total || 1));
      }
    }
    const answers = reference.answers(inputs, flat);
    for (const [name, want] of [
      ['O', O],
      ['LSE', LSE],
    ] as const)
      // Twelve digits, because many values of fp16 end with a 5 in the tenth.
      expect(Array.from(answers.get(name)!.want, (value) => value.toFixed(12))).toEqual(
        want.map((value) => value.toFixed(12)),
      );
  },
);

const OWN_DTYPES: readonly Readonly<Record<string, ElementDtype>>[] = [
  { Q: 'e4m3', K: 'e4m3', V: 'e4m3' },
  { Q: 'e5m2', K: 'e5m2', V: 'e5m2' },
  { K: 'e4m3', V: 'e5m2' },
  { Q: 'int8', K: 'int8', V: 'e4m3' },
];

test.each(OWN_DTYPES)('the oracle reads Q, K and V when each has its own dtype: %j', (dtypes) => {
  const full = problemCase(attentionProblem(), { B: 2, H: 4, S: 9, Skv: 13, Hkv: 2, D: 16 }, 'fp16', new Set(['LSE']));
  expectLoops({
    ...full,
    tensors: full.tensors.map((tensor) => ({ ...tensor, dtype: dtypes[tensor.name] ?? tensor.dtype })),
  });
});

const FEWER = { B: 'b', H: 'h', S: 's' } as const;

test.each(['B', 'H', 'S'] as const)('a bias of [%s, Skv] is the same along the dimensions that it lacks', (axis) => {
  const values = { B: 2, H: 3, S: 4, Skv: 5, D: 16, bias: 1 };
  const full = problemCase(attentionProblem(), values, 'fp16', new Set(['LSE']));
  const bias: Operand = { tensor: 'bias_values', axes: [FEWER[axis], 'k'] };
  expectLoops({
    ...full,
    tensors: full.tensors.map((each) => (each.name === bias.tensor ? { ...each, dims: [values[axis], 5] } : each)),
    operands: { ...full.operands, operands: { ...full.operands.operands, bias } },
  });
});

/** A function that reads the case's bias_values. Dimensions that the bias lacks are ignored. */
function biasOf({ operands, tensors }: ProblemCase, bits: { buffer: ArrayBuffer } | undefined): Inputs['bias'] {
  if (!bits) return undefined;
  const numbers = new Float16Array(bits.buffer);
  const { dims } = tensors.find(({ name }) => name === 'bias_values')!;
  const places = operands.operands.bias!.axes.map((axis) => 'bhsk'.indexOf(axis));
  return (at) => numbers[places.reduce((index, place, dim) => index * dims[dim]! + at[place]!, 0)]!;
}

function expectLoops(attention: ProblemCase): void {
  const inputs = drawInputs(attention, { seed: '5eed', rule: NORMAL });
  const halves = ['Q', 'K', 'V'].map((name) => {
    const { dtype } = attention.tensors.find((tensor) => tensor.name === name)!;
    return isSmall(dtype)
      ? Float16Array.from(inputs[name]!, (byte) => smallValues(dtype)[byte]!)
      : new Float16Array(inputs[name]!.buffer);
  });
  const floats = (name: string) => inputs[name] && new Float32Array(inputs[name].buffer);
  const want = byLoops(attention, {
    halves,
    sinks: floats('sink_logits'),
    slopes: floats('alibi_slopes'),
    bias: biasOf(attention, inputs['bias_values']),
  });
  const answers = reference.answers(inputs, attention);
  for (const name of ['O', 'LSE'] as const) {
    const { want: got } = answers.get(name)!;
    expect(got.length).toBe(want[name].length);
    const worst = want[name].reduce(
      (most, value, index) => (value === got[index] ? most : Math.max(most, Math.abs(value - got[index]!))),
      0,
    );
    expect(worst).toBeLessThan(1e-9);
  }
  expect(answers.get('O')!.rounding!.every((each) => each >= 0 && each < 1e-2)).toBe(true);
}
