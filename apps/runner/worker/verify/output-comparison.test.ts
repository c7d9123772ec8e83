import { expect, test } from 'vitest';
import type { ShapeFields } from '@flashcore/shared/kernels';
import { compareOutput, nthSmallest } from './output-comparison.ts';

const shape: ShapeFields = { batch: 1, heads: 2, sequenceLength: 4, headDim: 8, causal: false };
const POISON = 0xfe5a;
const halves = (values: ArrayLike<number>): Uint16Array<ArrayBuffer> =>
  new Uint16Array(Float16Array.from(values).buffer);

test('compareOutput() finds NaN, Inf, unwritten and wrong elements, each for what it is', () => {
  const want = Float64Array.from({ length: 64 }, (_, i) => 1 + i / 64);
  const got = halves(want);
  got[3] = POISON;
  got[9] = 0x7e00;
  got[20] = 0xfc00;
  got[63] = halves([5])[0]!;
  const result = compareOutput(got, want, { shape, poison: POISON, tolerance: { absolute: 1e-2, relative: 1e-2 } });
  expect({
    counts: [result.mismatches, result.unwrittenCount, result.nanCount, result.infCount],
    worst: result.worst,
    max: result.maxAbsError,
    places: result.firstMismatches.map(({ batch, head, row, column }) => [batch, head, row, column]),
    map: [result.errorMap.rows, result.errorMap.columns, result.errorMap.blockRows, result.errorMap.blockColumns],
    nanBlocks: result.errorMap.maxAbsError.flatMap((value, index) => (Number.isNaN(value) ? [index] : [])),
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
  });
});

test('the error map names the worst element of each block: the first that is not finite, else the largest error', () => {
  const blocky: ShapeFields = { batch: 2, heads: 1, sequenceLength: 32, headDim: 16, causal: false };
  const want = new Float64Array(2 * 32 * 16).fill(1);
  const got = halves(want);
  const at = (batch: number, row: number, column: number): number => (batch * 32 + row) * 16 + column;
  got[at(1, 5, 3)] = halves([3])[0]!;
  got[at(0, 4, 2)] = halves([2])[0]!;
  got[at(1, 30, 15)] = 0x7e00;
  got[at(1, 31, 14)] = 0x7e00;
  const { errorMap } = compareOutput(got, want, {
    shape: blocky,
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

test('each head has a map of its own, NaN where one of its elements is not finite', () => {
  const heads: ShapeFields = { batch: 2, heads: 2, sequenceLength: 16, headDim: 8, causal: false };
  const want = new Float64Array(2 * 2 * 16 * 8).fill(1);
  const got = halves(want);
  got[2 * 128 + 3 * 8 + 5] = halves([3])[0]!;
  got[3 * 128 + 7] = 0x7e00;
  const { errorMap } = compareOutput(got, want, {
    shape: heads,
    poison: POISON,
    tolerance: { absolute: 1e-2, relative: 0 },
  });
  expect(errorMap.headMaxAbsError.length).toBe(4 * errorMap.rows * errorMap.columns);
  expect(errorMap.headMaxAbsError.flatMap((error, at) => (error === 0 ? [] : [[at, error]]))).toEqual([
    [2 * 128 + 3 * 8 + 5, 2],
    [3 * 128 + 7, NaN],
  ]);
});

test('an exact output has no error and norm ratio 1', () => {
  const want = Float64Array.from({ length: 64 }, (_, i) => (i - 32) / 4);
  const result = compareOutput(halves(want), want, { shape, poison: POISON, tolerance: { absolute: 0, relative: 0 } });
  expect([result.mismatches, result.maxAbsError, result.p999AbsError, result.maxRelError, result.normRatio]).toEqual([
    0, 0, 0, 0, 1,
  ]);
});

test('nthSmallest() agrees with sorting', () => {
  const values = Float32Array.from({ length: 1001 }, (_, i) => (i * 7919) % 251);
  const sorted = values.slice().sort();
  expect([0, 1, 500, 999, 1000].map((n) => nthSmallest(values.slice(), n))).toEqual(
    [0, 1, 500, 999, 1000].map((n) => sorted[n]),
  );
});
