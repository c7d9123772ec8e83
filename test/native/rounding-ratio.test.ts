/**
 * The rounding ratio, which is the error as a multiple of the error that rounding explains: it equals the ratio that
 * plain loops compute, and honest attention stays below its limit.
 */
import {
  NORMAL,
  compareOutputs,
  drawInputs,
  judgeOutputs,
  outputOf,
  roundingLimitOf,
  roundingOf,
  tensorOf,
  type OutputExtent,
} from '@flashcore/runner/testing';
import { attentionCase, parseShape, type ProblemCase } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { compiledReference } from '../support/reference.ts';

const reference = await compiledReference();
const BLOCK_ROWS = 16;
const NAN = 0x7e00;
const shape = { batch: 1, heads: 3, sequenceLength: 37, headDim: 24, causal: false };
const kind = attentionCase(shape, 'fp16');
const inputs = drawInputs(kind, { seed: '7', rule: NORMAL });
/** The oracle's answer for the first output. */
const answerTo = (inputs: ReturnType<typeof drawInputs>, of: ProblemCase) => {
  const { want, rounding } = reference.answers(inputs, of).get('O')!;
  return { want, rounding: rounding! };
};
const answer = answerTo(inputs, kind);
const output = outputOf(kind);

/** The number of elements over which squares are averaged, what the root counts, and the index of a result. */
interface Averaged {
  of: number;
  times: number;
  index: number;
}

/** The worst ratio of a block, row or column, and the index that the library gives it, computed element by element. */
function byLoops(got: Float16Array): { ratio: number; index: number } {
  const { heads, sequenceLength, headDim } = shape;
  let worst = { ratio: 0, index: 0 };
  const squaresOf = (indices: readonly number[]): number[] =>
    indices.filter((i) => Number.isFinite(got[i])).map((i) => ((got[i]! - answer.want[i]!) / answer.rounding[i]!) ** 2);
  const raise = (squares: readonly number[], { of, times, index }: Averaged) => {
    const ratio = times * Math.sqrt(squares.reduce((sum, square) => sum + square, 0) / of);
    if (ratio > worst.ratio) worst = { ratio, index };
  };
  for (let head = 0; head < heads; head += 1) {
    const start = head * sequenceLength * headDim;
    const row = (s: number): number[] => Array.from({ length: headDim }, (_, d) => start + s * headDim + d);
    const all = Array.from({ length: sequenceLength }, (_, s) => s);
    for (let first = 0; first < sequenceLength; first += BLOCK_ROWS) {
      const block = all.slice(first, first + BLOCK_ROWS);
      const index = start + first * headDim;
      for (const s of block) raise(squaresOf(row(s)), { of: headDim, times: 1 / 2, index });
      const squares = squaresOf(block.flatMap(row));
      raise(squares, { of: squares.length, times: 1, index });
    }
    for (let d = 0; d < headDim; d += 1) {
      const column = all.map((s) => start + s * headDim + d);
      raise(squaresOf(column), { of: sequenceLength, times: 1 / 2, index: start + d });
    }
  }
  return worst;
}

test.each([
  ['an output that is only rounded', () => undefined],
  ['an output with a wrong column', (got: Float16Array) => got.forEach((_, i) => i % 24 === 7 && (got[i] = 1))],
  ['an output with a wrong row', (got: Float16Array) => got.fill(1, 20 * 24, 21 * 24)],
  ['an output with NaN, which other rules detect', (got: Float16Array) => got.fill(Number.NaN, 5, 900)],
])('roundingRatio() equals that of plain loops for %s', (_, change) => {
  const got = new Float16Array(answer.want);
  change(got);
  const { ratio, index } = reference.roundingRatio(new Uint16Array(got.buffer), answer, output);
  const wanted = byLoops(got);
  expect(index).toBe(wanted.index);
  expect(ratio).toBeCloseTo(wanted.ratio, 9);
});

test('one row or one column of 16 may be 4 times as far off as rounding explains, and not 5 times', () => {
  const off = (times: number, isOff: (row: number, column: number) => boolean): number => {
    const want = new Float64Array(32 * 64).fill(1);
    const got = Float32Array.from(want, (value, i) => value + (isOff(Math.floor(i / 64), i % 64) ? times / 64 : 0));
    const right = { want, rounding: new Float32Array(want.length).fill(1 / 64) };
    const written = { ...output, dims: [1, 1, 32, 64] };
    return reference.roundingRatio(tensorOf(got, 'fp16'), right, written).ratio;
  };
  expect([4, 5].map((times) => off(times, (row) => row % 16 === 5) > 2)).toEqual([false, true]);
  expect([4, 5].map((times) => off(times, (_, column) => column % 16 === 5) > 2)).toEqual([false, true]);
});

test('an output with only NaN has no ratio, and tensors of different lengths are refused', () => {
  const nothing = new Uint16Array(answer.want.length).fill(NAN);
  expect(reference.roundingRatio(nothing, answer, output)).toEqual({ ratio: 0, index: 0 });
  expect(() => reference.roundingRatio(nothing.subarray(1), answer, output)).toThrow(/wants tensors of/);
});

test('plain attention, which also rounds its logits, stays below 2 in every dtype, and an output in eighths is far above', () => {
  for (const dtype of ['fp16', 'bf16', 'fp32'] as const) {
    const of = attentionCase(shape, dtype);
    const drawn = drawInputs(of, { seed: '8', rule: NORMAL });
    const right = answerTo(drawn, of);
    expect(reference.roundingRatio(reference.plain(drawn, of), right, outputOf(of)).ratio, dtype).toBeLessThan(2);
  }
  const coarse = new Float16Array(answer.want.map((value) => Math.round(value * 8) / 8));
  expect(reference.roundingRatio(new Uint16Array(coarse.buffer), answer, output).ratio).toBeGreaterThan(30);
});

/** Each exp(x) of N(0, 1) divided by the sum of its row, as the softmax of another problem computes it. */
function softmaxOf(rows: number, columns: number): Float64Array {
  const drawn = drawInputs(attentionCase({ ...shape, sequenceLength: rows, headDim: columns, heads: 1 }, 'fp32'), {
    seed: '10',
    rule: NORMAL,
  });
  const powers = Float64Array.from(new Float32Array(drawn['Q']!.buffer), Math.exp);
  return powers.map((power, index) => {
    const row = index - (index % columns);
    return power / powers.subarray(row, row + columns).reduce((sum, each) => sum + each);
  });
}

test.each(['fp16', 'bf16', 'fp32'] as const)(
  'an output rounded once to %s is correct; an output without its small values, or with fewer bits, is wrong',
  (dtype) => {
    const [rows, columns] = [32, 1024];
    const want = softmaxOf(rows, columns);
    const written = { name: 'Y', dims: [rows, columns], dtype, rounds: 1 };
    const right = { want, rounding: roundingOf(want, written) };
    const ratioOf = (values: Float64Array): number =>
      reference.roundingRatio(tensorOf(Float32Array.from(values), dtype), right, { ...output, ...written }).ratio;
    expect(ratioOf(want)).toBeLessThan(1);
    expect(ratioOf(want.map((weight) => (weight < 1 / columns ? 0 : weight)))).toBeGreaterThan(20);
    expect(ratioOf(want.map((weight) => weight * (1 + 2 ** -5)))).toBeGreaterThan(5);
  },
);

test('the only element of a row is not judged relative to its own value, because fp32 sums may cancel out', () => {
  const want = Float64Array.from({ length: 50 }, (_, row) => 7 * (-1) ** row);
  want[20] = 1e-4;
  const written = { name: 'C', dims: [50, 1], dtype: 'fp16' as const, rounds: 1 };
  const right = { want, rounding: roundingOf(want, written) };
  const ratioOf = (error: number): number => {
    const got = Float32Array.from(want, (value, row) => value + (row === 20 ? error : 0));
    return reference.roundingRatio(tensorOf(got, 'fp16'), right, { ...output, ...written }).ratio;
  };
  // An error of the size that fp32 makes in these sums, and one of the size that 8 bits make.
  expect(ratioOf(1e-6)).toBeLessThan(0.1);
  expect(ratioOf(0.2)).toBeGreaterThan(10);
});

test('a gradient of fewer than 16 rows is judged as if it had 16 rows and the missing ones were exact', () => {
  const want = new Float64Array(4 * 8);
  const written = { ...output, name: 'dQ', dims: [4, 8] };
  const got = tensorOf(new Float32Array(want.length).fill(3), 'fp16');
  const ratioOf = (roundingExplains: boolean): number =>
    reference.roundingRatio(got, { want, rounding: new Float32Array(want.length).fill(1), roundingExplains }, written)
      .ratio;
  expect([false, true].map(ratioOf)).toEqual([3, 1.5]);
});

test('plain attention is the yardstick only if a kernel declares that it rounds logits, or cannot avoid it', () => {
  const limits = (['fp16', 'bf16', 'fp32'] as const).map((dtype) =>
    (['fp16', 'fp32'] as const).map((accumulate) =>
      roundingLimitOf({ maxAbsError: 1, roundingRatio: 15 }, { dtype, accumulate }),
    ),
  );
  expect(limits).toEqual([
    [30, 2],
    [30, 2],
    [30, 30],
  ]);
});

test.each(['fp16', 'bf16', 'fp32'] as const)('a kernel may flush %s weights next to a large sink to 0', (dtype) => {
  const of = attentionCase(parseShape('1x2x7x64,Skv=3,sinks=1'), dtype);
  const drawn = drawInputs(of, { seed: '9', rule: NORMAL });
  const outputs: [OutputExtent] = [outputOf(of)];
  const zeros = { O: drawn['Q']!.slice().fill(0) };
  const judged = (sink: number) => {
    const inputs = { ...drawn, sink_logits: new Uint32Array(Float32Array.of(sink, sink).buffer) };
    const answers = reference.answers(inputs, of);
    expect(answers.get('O')!.want.every((each) => each !== 0)).toBe(true);
    const limits = { tolerance: { absolute: 1e-2, relative: 1e-2 }, ownTolerances: {}, judgeRounding: true };
    const comparisons = compareOutputs(reference, zeros, { outputs, answers, limits, poison: NAN });
    const [answer] = judgeOutputs(reference, zeros, { outputs, answers, comparisons, roundingLimit: 2, limits });
    return [answer.beyondRounding, answer.trivialNorm];
  };
  expect(judged(110)).toEqual([false, false]);
  expect(judged(12)).toEqual([true, true]);
});
