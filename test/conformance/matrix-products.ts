/** mma and wgmma. */
import type { PrimitiveCase, Bound } from './bench.ts';
import { range, bfloats, bfround, bytes, halves, pair, exact, largest } from './test-numbers.ts';

/** Converts [16][16] in row order to registers [lane][4] ("Matrix Fragments for mma.m16n8k16", A). */
function fragmentsOfA(A: number[], bitsOf = halves): Uint32Array {
  const bits = bitsOf(A);
  return Uint32Array.from(
    range(128, (i) => {
      const [lane, register] = [i >> 2, i % 4];
      const [row, column] = [(lane >> 2) + 8 * (register % 2), 2 * (lane % 4) + 8 * (register >> 1)];
      return pair(bits[16 * row + column]!, bits[16 * row + column + 1]!);
    }),
  );
}

/** Converts [16][8] in row order to registers [lane][2]. */
function fragmentsOfB(B: number[], bitsOf = halves): Uint32Array {
  const bits = bitsOf(B);
  return Uint32Array.from(
    range(64, (i) => {
      const [lane, register] = [i >> 1, i % 2];
      const [row, column] = [2 * (lane % 4) + 8 * register, lane >> 2];
      return pair(bits[8 * row + column]!, bits[8 * (row + 1) + column]!);
    }),
  );
}

/** The position of a lane's d[i] in [16][8]. */
const placeOfD = (lane: number, i: number): number => 8 * ((lane >> 2) + 8 * (i >> 1)) + 2 * (lane % 4) + (i % 2);

const multiply = (A: number[], B: number[], C: number[], [M, N, K]: [number, number, number]): number[] =>
  range(M * N, (i) =>
    range(K, (k) => A[Math.floor(i / N) * K + k]! * B[k * N + (i % N)]!).reduce((sum, product) => sum + product, C[i]!),
  );

export function mma(
  accumulate: 'f32' | 'f16',
  values: (count: number, seed: number) => number[],
  name: string,
  operands: 'f16' | 'bf16' = 'f16',
): PrimitiveCase {
  const [round, bitsOf] = operands === 'bf16' ? [bfround, bfloats] : [Math.f16round, halves];
  const products = range(64, (i) => {
    const A = values(256, 3 * i + 1).map(round);
    const B = values(128, 3 * i + 2).map(round);
    const C = values(128, 3 * i + 3).map(accumulate === 'f16' ? Math.f16round : Math.fround);
    const lanes = range(32, (lane) => range(4, (each) => placeOfD(lane, each))).flat();
    const D = multiply(A, B, C, [16, 8, 16]);
    const magnitude = multiply(A.map(Math.abs), B.map(Math.abs), C.map(Math.abs), [16, 8, 16]);
    return {
      A: [...fragmentsOfA(A, bitsOf)],
      B: [...fragmentsOfB(B, bitsOf)],
      C: lanes.map((place) => C[place]!),
      D: lanes.map((place) => D[place]!),
      magnitude: lanes.map((place) => magnitude[place]!),
    };
  });
  const collect = (key: 'A' | 'B' | 'C' | 'D' | 'magnitude'): number[] => products.flatMap((product) => product[key]);
  const narrow = (numbers: number[]): Uint8Array =>
    accumulate === 'f32' ? bytes(Float32Array.from(numbers)) : bytes(halves(numbers));
  const D = collect('D');
  const magnitude = collect('magnitude');
  return {
    name,
    instruction: `mma.sync.aligned.m16n8k16.row.col.${accumulate}.${operands}.${operands}.${accumulate}`,
    source: 'primitives',
    entry: `mma_${accumulate}${operands === 'bf16' ? '_bf16' : ''}_many`,
    threads: 32,
    ctas: 64,
    inputs: [bytes(Uint32Array.from(collect('A'))), bytes(Uint32Array.from(collect('B'))), narrow(collect('C'))],
    outputBytes: D.length * (accumulate === 'f32' ? 4 : 2),
    rule: values === exact ? { bits: narrow(D) } : sumsWithin(D, magnitude),
  };
}

/**
 * The manual specifies neither the order of the additions nor their rounding. The bound therefore allows sixteen
 * additions that each truncate.
 */
const sumsWithin = (want: readonly number[], magnitude: readonly number[]): Bound => ({
  text: 'error at most 2^-20 of the sum of magnitudes',
  errorOf: (output) =>
    largest(output, (out) => {
      const d = new Float32Array(out.buffer as ArrayBuffer, out.byteOffset, want.length);
      return want.reduce((most, each, i) => Math.max(most, Math.abs(d[i]! - each) / magnitude[i]! / 2 ** -20), 0);
    }),
});

/**
 * Where wgmma's operands come from: A in registers (rs) or in shared memory (ss); B K-major, or MN-major (bt); or both
 * A and B MN-major (atbt).
 */
type Operands = 'rs' | 'rs_bt' | 'ss' | 'ss_atbt';

const ENTRY_SUFFIX: Readonly<Record<Operands, string>> = { rs: '', rs_bt: '_bt', ss: '_ss', ss_atbt: '_ss_atbt' };

/**
 * Four wgmma m64nNk16 in sequence cover a depth of 64. A is given as fragments [step][thread][4], or as rows if it is
 * in shared memory; D as [thread][N / 2].
 */
export function wgmma(N: 64 | 72 | 80 | 96 | 128 | 256, operands: Operands, values = exact): PrimitiveCase {
  const A = values(64 * 64, N + 1).map(Math.f16round);
  const B = values(64 * N, N + 2).map(Math.f16round); // [K][N]
  const D = multiply(
    A,
    B,
    range(64 * N, () => 0),
    [64, N, 64],
  );
  const fragments = range(4, (step) =>
    range(4, (warp) => [
      ...fragmentsOfA(range(256, (i) => A[(16 * warp + (i >> 4)) * 64 + 16 * step + (i % 16)]!)),
    ]).flat(),
  ).flat();
  const panels = (): number[] =>
    range(Math.ceil(N / 64), (panel) =>
      range(64 * 64, (i) => {
        const column = 64 * panel + (i % 64);
        return column < N ? B[(i >> 6) * N + column]! : 0;
      }),
    ).flat();
  const rowsAlongN = (): number[] => range(N * 64, (i) => B[(i % 64) * N + (i >> 6)]!);
  // The element in row 16 w + g (+ 8), column 8 j + 2 c (+ 1) is d[4 j + 2 (row half) + (column half)] of thread 32 w +
  // 4 g + c.
  const accumulators = (of: ArrayLike<number>): number[] =>
    range(128, (thread) =>
      range(
        N / 2,
        (i) =>
          of[
            (16 * (thread >> 5) + ((thread % 32) >> 2) + 8 * ((i >> 1) % 2)) * N +
              8 * (i >> 2) +
              2 * (thread % 4) +
              (i % 2)
          ]!,
      ),
    ).flat();
  const out = accumulators(D);
  const transposed = operands === 'rs_bt' || operands === 'ss_atbt';
  const A_transposed = range(64 * 64, (i) => A[(i % 64) * 64 + (i >> 6)]!);
  const A_given = { rs: undefined, rs_bt: undefined, ss: A, ss_atbt: A_transposed }[operands];
  return {
    name: `wgmma_m64n${N}k16_${operands}${values === exact ? '' : ', N(0, 1)'}`,
    instruction: `wgmma.mma_async.sync.aligned.m64n${N}k16.f32.f16.f16, ${A_given === undefined ? '' : `A ${transposed ? 'MN' : 'K'}-major in shared memory, `}B ${transposed ? 'MN' : 'K'}-major, with fence, commit_group and wait_group`,
    source: 'primitives_sm90a',
    entry: `wgmma_m64n${N}${ENTRY_SUFFIX[operands]}`,
    threads: 128,
    inputs: [
      A_given === undefined ? bytes(Uint32Array.from(fragments)) : bytes(halves(A_given)),
      bytes(halves(transposed ? panels() : rowsAlongN())),
    ],
    outputBytes: 4 * out.length,
    rule:
      values === exact ? { bits: bytes(Float32Array.from(out)) } : sumsWithin(out, accumulators(magnitudes(A, B, N))),
  };
}

/** For each element, the sum of the products' magnitudes over a depth of 64. */
function magnitudes(A: readonly number[], B: readonly number[], N: number): number[] {
  const positive = (numbers: readonly number[]): number[] => numbers.map(Math.abs);
  return multiply(
    positive(A),
    positive(B),
    range(64 * N, () => 0),
    [64, N, 64],
  );
}
