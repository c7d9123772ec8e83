/**
 * Tests the native comparison of a kernel's output with the reference, on hand-made cases and against a straightforward
 * loop.
 */
import { inFull } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import {
  attentionCase,
  elementsOfTensor,
  smallBits,
  smallValues,
  type ProblemCase,
  type ShapeFields,
} from '@flashcore/shared/kernels';
import { compareOutput, outputOf, wrongPlaces, type CompareOptions, type Comparison } from '@flashcore/runner/testing';
import { compiledReference } from '../support/reference.ts';

const reference = await compiledReference();

const shape: ShapeFields = { batch: 1, heads: 2, sequenceLength: 4, headDim: 8, causal: false };
const POISON = 0xffda;
const halves = (values: ArrayLike<number>): Uint16Array<ArrayBuffer> =>
  new Uint16Array(Float16Array.from(values).buffer);

test('compareOutput() tells NaN, Inf, unwritten and wrong elements apart', () => {
  const want = Float64Array.from({ length: 64 }, (_, i) => 1 + i / 64);
  const got = halves(want);
  got[3] = POISON;
  got[9] = 0x7e00;
  got[20] = 0xfc00;
  got[63] = halves([5])[0]!;
  const result = compareOutput(reference, got, want, {
    output: outputOf(attentionCase(shape, 'fp16')),
    poison: POISON,
    tolerance: { absolute: 1e-2, relative: 1e-2 },
  });
  expect({
    counts: [result.mismatches, result.unwrittenCount, result.nanCount, result.infCount],
    worst: result.worst,
    max: result.maxAbsError,
    places: result.firstMismatches.map(({ batch, head, row, column }) => [batch, head, row, column]),
    map: [result.errorMap.rows, result.errorMap.columns, result.errorMap.blockRows, result.errorMap.blockColumns],
    nanBlocks: result.errorMap.maxAbsError.flatMap((value, index) => (Number.isNaN(value) ? [index] : [])),
    outside: result.errorMap.outside.flatMap((count, index) => (count > 0n ? [[index, count]] : [])),
  }).toEqual({
    counts: [4, 1, 1, 1],
    worst: { batch: 0, head: 1, row: 3, column: 7, got: 5, want: 1 + 63 / 64 },
    max: 5 - (1 + 63 / 64),
    places: [
      [0, 0, 0, 3],
      [0, 0, 1, 1],
      [0, 0, 2, 4],
      [0, 1, 3, 7],
    ],
    map: [4, 8, 1, 1],
    nanBlocks: [3, 9, 20],
    outside: [
      [3, 1n],
      [9, 1n],
      [20, 1n],
      [31, 1n],
    ],
  });
});

test('the worst element is the one farthest beyond its limit, not the one with the largest error', () => {
  const want = new Float64Array(64).fill(1_000);
  want[7] = 0.5;
  const got = halves(want);
  got[3] = halves([1_008])[0]!;
  got[7] = halves([1])[0]!;
  const { worst, worstOfLimit, maxAbsError } = compareOutput(reference, got, want, {
    output: outputOf(attentionCase(shape, 'fp16')),
    poison: POISON,
    tolerance: { absolute: 0, relative: 0.015625 },
  });
  expect([worst?.column, worst?.got, worstOfLimit, maxAbsError]).toEqual([7, 1, 64, 8]);
});

test('rounding explains an error beyond the tolerance, up to a multiple of itself', () => {
  const want = new Float64Array(64).fill(1);
  const got = halves(want);
  const rounding = new Float32Array(64).fill(2 ** -9);
  for (const index of [5, 6]) got[index] = halves([1.125])[0]!;
  rounding[5] = 2 ** -5;
  const found = (explained?: number) => {
    const { mismatches, worstOfLimit } = compareOutput(reference, got, want, {
      output: outputOf(attentionCase(shape, 'fp16')),
      poison: POISON,
      tolerance: { absolute: 0.0625, relative: 0 },
      ...(explained !== undefined && { rounding, explained }),
    });
    return [mismatches, worstOfLimit];
  };
  expect(found()).toEqual([2, 2]);
  expect(found(3)).toEqual([2, 2]); // element 5 may be off by 0.094, and element 6 by its tolerance
  expect(found(8)).toEqual([1, 2]); // element 5 by 0.25
  expect(found(64)).toEqual([0, 1]); // element 6 by 0.125
});

test("the error map names each block's worst element: the first element that is not finite, or else the largest error", () => {
  const blocky: ShapeFields = { batch: 2, heads: 1, sequenceLength: 32, headDim: 16, causal: false };
  const want = new Float64Array(2 * 32 * 16).fill(1);
  const got = halves(want);
  const at = (batch: number, row: number, column: number): number => (batch * 32 + row) * 16 + column;
  got[at(1, 5, 3)] = halves([3])[0]!;
  got[at(0, 4, 2)] = halves([2])[0]!;
  got[at(1, 30, 15)] = 0x7e00;
  got[at(1, 31, 14)] = 0x7e00;
  const { errorMap } = compareOutput(reference, got, want, {
    output: outputOf(attentionCase(blocky, 'fp16')),
    poison: POISON,
    tolerance: { absolute: 1e-2, relative: 0 },
  });
  const block = (row: number, column: number) =>
    [errorMap.worstIndex, errorMap.worstGot, errorMap.worstWant, errorMap.maxAbsError].map(
      (values) => values[row * errorMap.columns + column],
    );
  expect([block(2, 1), block(15, 7), block(0, 0)]).toEqual([
    [at(1, 5, 3), 3, 1, 2],
    [at(1, 30, 15), NaN, 1, NaN],
    [at(0, 0, 0), 1, 1, 0],
  ]);
});

test('each head has its own error map, with NaN for blocks that have an element that is not finite', () => {
  const heads: ShapeFields = { batch: 2, heads: 2, sequenceLength: 16, headDim: 8, causal: false };
  const want = new Float64Array(2 * 2 * 16 * 8).fill(1);
  const got = halves(want);
  got[2 * 128 + 3 * 8 + 5] = halves([3])[0]!;
  got[3 * 128 + 7] = 0x7e00;
  const { errorMap } = compareOutput(reference, got, want, {
    output: outputOf(attentionCase(heads, 'fp16')),
    poison: POISON,
    tolerance: { absolute: 1e-2, relative: 0 },
  });
  expect(errorMap.headMaxAbsError.length).toBe(4 * errorMap.rows * errorMap.columns);
  expect(errorMap.headMaxAbsError.flatMap((error, at) => (error === 0 ? [] : [[at, error]]))).toEqual([
    [2 * 128 + 3 * 8 + 5, 2],
    [3 * 128 + 7, NaN],
  ]);
});

test('an output with too many wrong rows to list names only the wrong column', () => {
  const rows = 5_000;
  const tall: ShapeFields = { batch: 1, heads: 1, sequenceLength: rows, headDim: 2, causal: false };
  const want = new Float64Array(2 * rows);
  const got = halves(want.map((_, index) => index % 2));
  const output = outputOf(attentionCase(tall, 'fp16'));
  const tolerance = { absolute: 1e-2, relative: 0 };
  expect(wrongPlaces(got, want, { output, tolerance, modelled: undefined, limit: 2 })).toEqual({
    ...{ heads: [0], rows: [], columns: [1] },
    ...{ ofHeads: 1, ofRows: rows, ofColumns: 2 },
  });
});

test('an error beyond rounding is wrong in each of its rows, whichever elements are outside the tolerance', () => {
  const wide: ShapeFields = { batch: 1, heads: 4, sequenceLength: 8, headDim: 16, causal: false };
  const want = new Float64Array(4 * 8 * 16);
  const place = (head: number, row: number, column: number): number => (head * 8 + row) * 16 + column;
  const wrong = want.slice();
  wrong[place(1, 2, 3)] = 0.5;
  for (let column = 0; column < 16; column += 1) wrong[place(3, 5, column)] = 3e-3;
  const output = outputOf(attentionCase(wide, 'fp16'));
  const modelled = new Float32Array(want.length).fill(1e-3);
  const options = { output, tolerance: { absolute: 1e-2, relative: 0 }, limit: 2 };
  const places = (rounding: Float32Array | undefined) => {
    const { heads, rows, columns } = wrongPlaces(halves(wrong), want, { ...options, modelled: rounding })!;
    return { heads, rows, columns: columns.length };
  };
  expect([places(modelled), places(undefined)]).toEqual([
    { heads: [1, 3], rows: [2, 5], columns: 16 },
    { heads: [1], rows: [2], columns: 1 },
  ]);
});

test('an exact output has no error and norm ratio 1', () => {
  const want = Float64Array.from({ length: 64 }, (_, i) => (i - 32) / 4);
  const result = compareOutput(reference, halves(want), want, {
    output: outputOf(attentionCase(shape, 'fp16')),
    poison: POISON,
    tolerance: { absolute: 0, relative: 0 },
  });
  expect([result.mismatches, result.maxAbsError, result.p999AbsError, result.maxRelError, result.normRatio]).toEqual([
    0, 0, 0, 0, 1,
  ]);
});

test('an expected infinity, such as LSE of a row without keys, is correct, and any other value there is wrong', () => {
  const output = outputOf(attentionCase({ ...shape, heads: 1, sequenceLength: 1, headDim: 4 }, 'fp32'));
  const want = Float64Array.of(-Infinity, -Infinity, -Infinity, 2);
  const got = new Uint32Array(Float32Array.of(-Infinity, Infinity, -1e30, 2).buffer);
  const compared = { output, poison: POISON, tolerance: { absolute: 1e-3, relative: 1e-3 } };
  const { mismatches, infCount, nanCount, maxAbsError, normRatio, firstMismatches } = compareOutput(
    reference,
    got,
    want,
    compared,
  );
  expect({ mismatches, infCount, nanCount, maxAbsError, normRatio }).toEqual({
    mismatches: 2,
    infCount: 1,
    nanCount: 0,
    maxAbsError: 0,
    normRatio: 1,
  });
  expect(firstMismatches.map(({ column }) => column)).toEqual([1, 2]);
});

type Bits = Uint8Array<ArrayBuffer> | Uint16Array<ArrayBuffer> | Uint32Array<ArrayBuffer>;

interface Disturbed {
  got: Bits;
  values: ArrayLike<number>;
  want: Float64Array;
}

const singles = (values: ArrayLike<number>): Uint32Array<ArrayBuffer> =>
  new Uint32Array(Float32Array.from(values).buffer);
/** bf16 is made by truncation, because for this test any rounding is good enough. */
const BITS: Record<ProblemCase['dtype'], (values: Float64Array) => Bits> = {
  fp16: halves,
  bf16: (values) => Uint16Array.from(singles(values), (word) => word >>> 16),
  fp32: singles,
  e4m3: (values) => smallBits(Float32Array.from(values), 'e4m3'),
  e5m2: (values) => smallBits(Float32Array.from(values), 'e5m2'),
  int8: (values) => smallBits(Float32Array.from(values), 'int8'),
};
const VALUES: Record<ProblemCase['dtype'], (bits: Bits) => ArrayLike<number>> = {
  fp16: (bits) => new Float16Array(bits.buffer),
  bf16: (bits) => new Float32Array(Uint32Array.from(bits, (word) => word << 16).buffer),
  fp32: (bits) => new Float32Array(bits.buffer),
  e4m3: (bits) => Array.from(bits, (byte) => smallValues('e4m3')[byte]!),
  e5m2: (bits) => Array.from(bits, (byte) => smallValues('e5m2')[byte]!),
  int8: (bits) => new Int8Array(bits.buffer),
};

/**
 * Compares one element after another, in double. compareOutput() must give exactly the same result, so errors are
 * summed in its order: each group of heads with at least 2^16 elements has a sum, and these sums are added in order.
 */
function oneByOne(
  { got, values, want }: Disturbed,
  { output, poison: word, tolerance, rounding, explained = 0 }: CompareOptions,
) {
  const { dtype } = output;
  const [B, H, S, D] = output.dims as [number, number, number, number];
  const poison = {
    fp16: word,
    bf16: word,
    fp32: word! * 0x10001,
    e4m3: word! >> 8,
    e5m2: word! >> 8,
    int8: word! & 0xff,
  }[dtype];
  const headsOfGroup = Math.max(1, Math.floor(2 ** 16 / (S * D)));
  const groups = Array.from({ length: Math.ceil((B * H) / headsOfGroup) }, () => ({
    sumAbsError: 0,
    sumSquareError: 0,
    got: 0,
    want: 0,
  }));
  const limitAt = (index: number): number =>
    Math.max(
      tolerance.absolute + tolerance.relative * Math.abs(want[index]!),
      rounding ? explained * rounding[index]! : 0,
    );
  const counts = { mismatches: 0, nanCount: 0, infCount: 0, unwrittenCount: 0 };
  const errors: number[] = [];
  const [blockRows, blockColumns] = [Math.ceil(S / 16), Math.ceil(D / 8)];
  const [rows, columns] = [Math.ceil(S / blockRows), Math.ceil(D / blockColumns)];
  const map = Array.from({ length: rows * columns }, () => ({ error: -1, index: 0 }));
  const heads = new Float32Array(B * H * rows * columns);
  const outside = map.map(() => 0n);
  const first: number[] = [];
  let [maxAbsError, maxRelError, worst, worstOfLimit] = [0, 0, -1, 0];
  for (const [index, wanted] of want.entries()) {
    const value = values[index]!;
    const error = value === wanted ? 0 : Math.abs(value - wanted);
    const size = Math.abs(wanted);
    const finite = Number.isFinite(error);
    const head = Math.floor(index / (D * S));
    const sums = groups[Math.floor(head / headsOfGroup)]!;
    const row = Math.floor(index / D) % S;
    const block = Math.floor(row / blockRows) * columns + Math.floor((index % D) / blockColumns);
    const place = map[block]!;
    if (Number.isFinite(wanted)) sums.want += wanted * wanted;
    if (!finite || error > limitAt(index)) {
      counts.mismatches += 1;
      outside[block]! += 1n;
      first.push(index);
      if (dtype === 'int8' && finite && got[index] === poison) counts.unwrittenCount += 1;
    }
    if (!finite) {
      if (got[index] === poison) counts.unwrittenCount += 1;
      else if (!Number.isFinite(value)) counts[Number.isNaN(value) ? 'nanCount' : 'infCount'] += 1;
      if (!Number.isNaN(place.error)) Object.assign(place, { error: NaN, index });
      heads[head * map.length + block] = NaN;
      continue;
    }
    if (Number.isFinite(wanted)) sums.got += value * value;
    sums.sumAbsError += error;
    sums.sumSquareError += error * error;
    errors.push(Math.fround(error));
    maxAbsError = Math.max(maxAbsError, error);
    const ofLimit = error === 0 ? 0 : error / limitAt(index);
    if (ofLimit > worstOfLimit || worst < 0) [worstOfLimit, worst] = [ofLimit, index];
    maxRelError = Math.max(maxRelError, error / Math.max(size, 2 ** -14));
    if (error > place.error) Object.assign(place, { error, index });
    const ofHead = head * map.length + block;
    heads[ofHead] = Math.max(heads[ofHead]!, error);
  }
  const at = (index: number) => {
    const row = Math.floor(index / D);
    const head = Math.floor(row / S);
    return {
      batch: Math.floor(head / H),
      head: head % H,
      row: row % S,
      column: index % D,
      got: values[index]!,
      want: want[index]!,
    };
  };
  const total = (name: 'sumAbsError' | 'sumSquareError' | 'got' | 'want'): number =>
    groups.reduce((sum, group) => sum + group[name], 0);
  const ranked = errors.toSorted((a, b) => a - b);
  return {
    ...counts,
    maxAbsError,
    maxRelError,
    sumAbsError: total('sumAbsError'),
    sumSquareError: total('sumSquareError'),
    p999AbsError: ranked[Math.max(0, Math.ceil(ranked.length * 0.999) - 1)] ?? 0,
    elements: want.length,
    ...(worst >= 0 && { worst: at(worst) }),
    worstOfLimit,
    firstMismatches: first.slice(0, 16).map(at),
    errorMap: {
      rows,
      columns,
      blockRows,
      blockColumns,
      maxAbsError: map.map(({ error }) => error),
      worstIndex: map.map(({ index }) => index),
      worstGot: map.map(({ index }) => values[index]!),
      worstWant: map.map(({ index }) => want[index]!),
      headMaxAbsError: B * H <= 64 ? Array.from(heads) : [],
      outputDims: [B, H, S, D].map(BigInt),
      outside: first.length === 0 ? [] : outside,
    },
    normRatio: total('want') === 0 ? 1 : Math.sqrt(total('got') / total('want')),
  } satisfies Comparison;
}

/**
 * Reference values of every size, and outputs that differ from them by a rounding, by little or by much, and that are
 * not finite in a few places.
 */
function disturbed({ dtype, tensors }: ProblemCase, wrong: number): Disturbed {
  let state = 12_345;
  const random = (): number => (state = (state * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31;
  const elements = elementsOfTensor(tensors.at(-1)!);
  const want = Float64Array.from({ length: elements }, () => (random() - 0.5) * 10 ** (random() * 8 - 6));
  const got = BITS[dtype](want.map((value) => value * (1 + (random() - 0.5) * 1e-2)));
  for (let index = 0; index < wrong; ++index) got[Math.floor(random() * elements)] = WRONG_BITS[dtype][index % 6]!;
  if (wrong > 12) want[Math.floor(elements / 2)] = Infinity;
  return { got, want, values: VALUES[dtype](got) };
}

const WRONG_BITS = {
  fp16: [0x7e00, 0xfc00, 0x7c00, POISON, 0x3c00, 0x8001],
  bf16: [0x7fc0, 0xff80, 0x7f80, POISON, 0x3f80, 0x8001],
  fp32: [0x7fc0_0000, 0xff80_0000, 0x7f80_0000, POISON * 0x10001, 0x3f80_0000, 0x8000_0001],
  e4m3: [0x7f, 0xfe, 0x7e, POISON >> 8, 0x38, 0x81],
  e5m2: [0x7d, 0xfc, 0x7c, POISON >> 8, 0x3c, 0x81],
  int8: [0x7f, 0x80, 0, POISON & 0xff, 1, 0x81],
};

const EXTENTS = [
  { dtype: 'fp16', batch: 2, heads: 3, sequenceLength: 200, headDim: 64, wrong: 0 },
  { dtype: 'fp16', batch: 2, heads: 3, sequenceLength: 200, headDim: 64, wrong: 40 },
  { dtype: 'bf16', batch: 12, heads: 9, sequenceLength: 31, headDim: 64, wrong: 60 },
  { dtype: 'fp16', batch: 1, heads: 65, sequenceLength: 17, headDim: 3, wrong: 13 },
  { dtype: 'bf16', batch: 2, heads: 3, sequenceLength: 33, headDim: 64, wrong: 40 },
  { dtype: 'fp32', batch: 2, heads: 3, sequenceLength: 33, headDim: 64, wrong: 40 },
  { dtype: 'e4m3', batch: 2, heads: 3, sequenceLength: 33, headDim: 63, wrong: 40 },
  { dtype: 'e5m2', batch: 2, heads: 3, sequenceLength: 33, headDim: 63, wrong: 40 },
  { dtype: 'int8', batch: 2, heads: 3, sequenceLength: 33, headDim: 63, wrong: 40 },
  { dtype: 'fp16', batch: 1, heads: 1, sequenceLength: 1, headDim: 1, wrong: 0 },
  { dtype: 'fp16', batch: 1, heads: 1, sequenceLength: 1, headDim: 5, wrong: 200 },
] as const;

/** The short form has neither many heads, nor e5m2, nor int8. */
const isShort = ({ batch, dtype }: (typeof EXTENTS)[number]): boolean =>
  batch < 12 && dtype !== 'e5m2' && dtype !== 'int8';

test.each(inFull(EXTENTS, isShort))(
  'every figure equals that of a loop that adds one element after another: $dtype, $batch x $heads x $sequenceLength x $headDim, $wrong wrong',
  ({ wrong, dtype, ...extent }) => {
    const compared = attentionCase({ ...extent, causal: false }, dtype);
    const tried = disturbed(compared, wrong);
    const options = { output: outputOf(compared), poison: POISON, tolerance: { absolute: 1e-4, relative: 1e-3 } };
    const rounding = Float32Array.from(tried.want, (value, index) => Math.abs(value) * 2 ** -(4 + (index % 8)));
    for (const each of [options, { ...options, rounding, explained: 3 }])
      expect(compareOutput(reference, tried.got, tried.want, each)).toEqual(oneByOne(tried, each));
  },
);

test('maxAbsError() is the largest of all errors', () => {
  const want = Float64Array.from({ length: 1001 }, (_, index) => Math.sin(index) / 3);
  const got = halves(want);
  const errors = Array.from(new Float16Array(got.buffer), (value, index) => Math.abs(value - want[index]!));
  expect(reference.maxAbsError(got, want, 'fp16')).toBe(Math.max(...errors));
});
