/**
 * Every function of kernels/primitives by itself: what goes in, and what must come out by the definition of its
 * instruction (PTX ISA), written here the obvious way.
 */
import type { Suite, TensorMap } from './bench.ts';

export interface PrimitiveCase {
  /** The function and, where there are several cases of it, which. */
  name: string;
  instruction: string;
  source: string;
  entry: string;
  threads: number;
  ctas?: number;
  inputs: Uint8Array[];
  /** The first input as a tensor map rather than a pointer. */
  tensorMap?: Omit<TensorMap, 'address'>;
  outputBytes: number;
  /** Bits, or how far an approximation may be off. */
  rule: { bits: Uint8Array } | Bound;
}

/** `errorOf` measures an output in units of what the definition allows: 1 is the most. */
export interface Bound {
  text: string;
  errorOf(output: Uint8Array): number;
}

const range = <T>(length: number, value: (index: number) => T): T[] =>
  Array.from({ length }, (_, index) => value(index));
const bytes = (array: ArrayBufferView): Uint8Array =>
  new Uint8Array(array.buffer as ArrayBuffer, array.byteOffset, array.byteLength);
const halves = (values: number[]): Uint16Array => new Uint16Array(Float16Array.from(values).buffer);
const pair = (low: number, high: number): number => (low | (high << 16)) >>> 0;

/** Reproducible numbers in [0, 1). */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

/** N(0, 1) by Box and Muller. */
function normals(count: number, seed: number): number[] {
  const random = generator(seed);
  return range(count, () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random()));
}

/**
 * Multiples of 1/8 up to 1: products and sums of 64 of them are exact in fp32, and of 16 in fp16 too, so that no order
 * of summation matters.
 */
const exact = (count: number, seed: number): number[] => {
  const random = generator(seed);
  return range(count, () => (Math.floor(random() * 17) - 8) / 8);
};

// --- conversions -----------------------------------------------------------------------------------------------------

function packHalf2(): PrimitiveCase {
  const all = [...new Float16Array(Uint16Array.from(range(0x7c00, (i) => i)).buffer)];
  // Every finite fp16 magnitude, the middle to its neighbour (a tie), just beside the middle; then what overflows, and
  // what vanishes.
  const ties = all.slice(1).map((value, i) => (value + all[i]!) / 2);
  const near = ties.flatMap((tie) => [tie * (1 + 2 ** -20), -tie * (1 - 2 ** -20)]);
  const values = Float32Array.from([
    ...all,
    ...ties,
    ...near,
    65519,
    65520,
    -65520,
    1e30,
    Infinity,
    -Infinity,
    1e-30,
    -0,
  ]);
  const count = Math.floor(values.length / 512) * 256; // pairs, whole blocks; the specials lie in the last pairs
  const pairs = values.slice(values.length - 2 * count);
  const packed = halves([...pairs]);
  return {
    name: 'pack_half2',
    instruction: 'cvt.rn.f16x2.f32',
    source: 'primitives',
    entry: 'pack_half2_all',
    threads: 256,
    ctas: count / 256,
    inputs: [bytes(pairs)],
    outputBytes: 4 * count,
    rule: { bits: bytes(packed) },
  };
}

function exp2Approx(): PrimitiveCase {
  const x = Float32Array.from([
    ...range(65_536 - 512, (i) => -130 + (i / 65_024) * 150),
    ...normals(506, 5),
    -Infinity,
    0,
    -0,
    1,
    -126,
    -149,
  ]);
  const errorOf = (output: Uint8Array): number => {
    const y = new Float32Array(output.buffer as ArrayBuffer, output.byteOffset, x.length);
    return Math.max(
      ...range(x.length, (i) => {
        const want = 2 ** x[i]!;
        // .ftz: what is below the normal numbers is zero, or within one rounding of the least of them
        if (want < 2 ** -126 && y[i] === 0) return 0;
        if (want < 2 ** -126) return want > 2 ** -126 * (1 - 2 ** -22) ? 1 : Infinity;
        return Math.abs(y[i]! - want) / want / 2 ** -22;
      }).filter((error) => error > 0),
      0,
    );
  };
  return {
    name: 'exp2_approx',
    instruction: 'ex2.approx.ftz.f32',
    source: 'primitives',
    entry: 'exp2_approx_all',
    threads: 256,
    ctas: 256,
    inputs: [bytes(x)],
    outputBytes: 4 * x.length,
    rule: {
      text: 'relative error at most 2^-22; results below 2^-126 are 0',
      errorOf: (output) => largest(output, errorOf),
    },
  };
}

// Math.max of 65,536 spread arguments is within V8's limit; a NaN anywhere must not pass.
function largest(output: Uint8Array, errorOf: (output: Uint8Array) => number): number {
  const error = errorOf(output);
  return Number.isNaN(error) ||
    new Float32Array(output.buffer as ArrayBuffer, output.byteOffset, output.byteLength / 4).some(Number.isNaN)
    ? Infinity
    : error;
}

// --- matrices between shared memory and registers --------------------------------------------------------------------

const rowOfLane = (lane: number): number => (5 * lane + 3) % 32;

/**
 * Lane l gets of matrix m the elements (row l / 4, columns 2 (l % 4) and + 1), transposed those of (rows …, column l /
 * 4); lanes 8 m .. 8 m + 7 name its rows.
 */
function ldmatrix(matrices: 2 | 4, transposed: boolean): PrimitiveCase {
  const elements = Uint16Array.from(range(256, (i) => (i * 2654435761) >>> 16));
  const at = (m: number, row: number, column: number): number => elements[8 * rowOfLane(8 * m + row) + column]!;
  const out = range(32, (lane) =>
    range(matrices, (m) => {
      const [group, first] = [lane >> 2, 2 * (lane % 4)];
      return transposed
        ? pair(at(m, first, group), at(m, first + 1, group))
        : pair(at(m, group, first), at(m, group, first + 1));
    }),
  ).flat();
  const name = `ldmatrix_x${matrices}${transposed ? '_trans' : ''}`;
  return {
    name,
    instruction: `ldmatrix.sync.aligned.m8n8.x${matrices}${transposed ? '.trans' : ''}.shared.b16`,
    source: 'primitives',
    entry: `${name}_one`,
    threads: 32,
    inputs: [bytes(elements)],
    outputBytes: 128 * matrices,
    rule: { bits: bytes(Uint32Array.from(out)) },
  };
}

function stmatrix(): PrimitiveCase {
  const registers = Uint32Array.from(range(128, (i) => (i * 2654435761) >>> 0));
  const out = new Uint16Array(256);
  for (let lane = 0; lane < 32; ++lane)
    for (let m = 0; m < 4; ++m)
      for (const half of [0, 1])
        out[8 * rowOfLane(8 * m + (lane >> 2)) + 2 * (lane % 4) + half] = registers[4 * lane + m]! >>> (16 * half);
  return {
    name: 'stmatrix_x4',
    instruction: 'stmatrix.sync.aligned.m8n8.x4.shared.b16',
    source: 'primitives_sm90',
    entry: 'stmatrix_x4_one',
    threads: 32,
    inputs: [bytes(registers)],
    outputBytes: 512,
    rule: { bits: bytes(out) },
  };
}

// --- products --------------------------------------------------------------------------------------------------------

/** [16][16] by rows to registers [lane][4] ("Matrix Fragments for mma.m16n8k16", A). */
function fragmentsOfA(A: number[]): Uint32Array {
  const bits = halves(A);
  return Uint32Array.from(
    range(128, (i) => {
      const [lane, register] = [i >> 2, i % 4];
      const [row, column] = [(lane >> 2) + 8 * (register % 2), 2 * (lane % 4) + 8 * (register >> 1)];
      return pair(bits[16 * row + column]!, bits[16 * row + column + 1]!);
    }),
  );
}

/** [16][8] by rows to registers [lane][2]. */
function fragmentsOfB(B: number[]): Uint32Array {
  const bits = halves(B);
  return Uint32Array.from(
    range(64, (i) => {
      const [lane, register] = [i >> 1, i % 2];
      const [row, column] = [2 * (lane % 4) + 8 * register, lane >> 2];
      return pair(bits[8 * row + column]!, bits[8 * (row + 1) + column]!);
    }),
  );
}

/** Where d[i] of a lane lies in [16][8]. */
const placeOfD = (lane: number, i: number): number => 8 * ((lane >> 2) + 8 * (i >> 1)) + 2 * (lane % 4) + (i % 2);

const multiply = (A: number[], B: number[], C: number[], [M, N, K]: [number, number, number]): number[] =>
  range(M * N, (i) =>
    range(K, (k) => A[Math.floor(i / N) * K + k]! * B[k * N + (i % N)]!).reduce((sum, product) => sum + product, C[i]!),
  );

function mma(
  accumulate: 'f32' | 'f16',
  values: (count: number, seed: number) => number[],
  name: string,
): PrimitiveCase {
  const products = range(64, (i) => {
    const A = values(256, 3 * i + 1).map(Math.f16round);
    const B = values(128, 3 * i + 2).map(Math.f16round);
    const C = values(128, 3 * i + 3).map(accumulate === 'f16' ? Math.f16round : Math.fround);
    const lanes = range(32, (lane) => range(4, (each) => placeOfD(lane, each))).flat();
    const D = multiply(A, B, C, [16, 8, 16]);
    const magnitude = multiply(A.map(Math.abs), B.map(Math.abs), C.map(Math.abs), [16, 8, 16]);
    return {
      A: [...fragmentsOfA(A)],
      B: [...fragmentsOfB(B)],
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
    instruction: `mma.sync.aligned.m16n8k16.row.col.${accumulate}.f16.f16.${accumulate}`,
    source: 'primitives',
    entry: `mma_${accumulate}_many`,
    threads: 32,
    ctas: 64,
    inputs: [bytes(Uint32Array.from(collect('A'))), bytes(Uint32Array.from(collect('B'))), narrow(collect('C'))],
    outputBytes: D.length * (accumulate === 'f32' ? 4 : 2),
    rule: values === exact ? { bits: narrow(D) } : sumsWithin(D, magnitude),
  };
}

/**
 * The manual specifies neither order nor rounding of the sums: room for sixteen additions that each cut off instead of
 * rounding.
 */
const sumsWithin = (want: readonly number[], magnitude: readonly number[]): Bound => ({
  text: 'error at most 2^-20 of the sum of magnitudes',
  errorOf: (output) =>
    largest(output, (out) => {
      const d = new Float32Array(out.buffer as ArrayBuffer, out.byteOffset, want.length);
      return want.reduce((most, each, i) => Math.max(most, Math.abs(d[i]! - each) / magnitude[i]! / 2 ** -20), 0);
    }),
});

/** Where wgmma takes its operands: A from registers or shared memory, B K-major or MN-major. */
type Operands = 'rs' | 'rs_bt' | 'ss';
const ENTRY_SUFFIX: Readonly<Record<Operands, string>> = { rs: '', rs_bt: '_bt', ss: '_ss' };

/**
 * wgmma m64nNk16 four times, over a depth of 64; A as fragments [step][thread][4], or as rows where it is in shared
 * memory; D [thread][N / 2].
 */
function wgmma(N: 64 | 72 | 128 | 136 | 192, operands: Operands, values = exact): PrimitiveCase {
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
  // Row 16 w + g (+ 8), column 8 j + 2 c (+ 1) is d[4 j + 2 (row half) + (column half)] of thread 32 w + 4 g + c.
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
  const transposed = operands === 'rs_bt';
  return {
    name: `wgmma_m64n${N}k16_${operands}${values === exact ? '' : ', N(0, 1)'}`,
    instruction: `wgmma.mma_async.sync.aligned.m64n${N}k16.f32.f16.f16, ${operands === 'ss' ? 'A in shared memory, ' : ''}B ${transposed ? 'MN' : 'K'}-major, with fence, commit_group and wait_group`,
    source: 'primitives_sm90a',
    entry: `wgmma_m64n${N}${ENTRY_SUFFIX[operands]}`,
    threads: 128,
    inputs: [
      operands === 'ss' ? bytes(halves(A)) : bytes(Uint32Array.from(fragments)),
      bytes(halves(transposed ? panels() : rowsAlongN())),
    ],
    outputBytes: 4 * out.length,
    rule:
      values === exact ? { bits: bytes(Float32Array.from(out)) } : sumsWithin(out, accumulators(magnitudes(A, B, N))),
  };
}

/** Sums of the products' magnitudes over a depth of 64. */
function magnitudes(A: readonly number[], B: readonly number[], N: number): number[] {
  const positive = (numbers: readonly number[]): number[] => numbers.map(Math.abs);
  return multiply(
    positive(A),
    positive(B),
    range(64 * N, () => 0),
    [64, N, 64],
  );
}

// --- copies, barriers, addresses -------------------------------------------------------------------------------------

const words = (count: number, seed: number): Uint32Array =>
  Uint32Array.from(range(count, (i) => Math.imul(i + seed, 2654435761) >>> 0));

function cpAsync(): PrimitiveCase {
  const source = words(256, 1);
  const out = source.map((word, i) => (i < 128 && (i >> 2) % 3 === 0 ? 0 : word));
  return {
    name: 'cp_async_16, cp_async_commit, cp_async_wait',
    instruction: 'cp.async.cg.shared.global with and without zero-fill, commit_group, wait_group',
    source: 'primitives',
    entry: 'cp_async_groups',
    threads: 32,
    inputs: [bytes(source)],
    outputBytes: 1024,
    rule: { bits: bytes(out) },
  };
}

function namedBarriers(): PrimitiveCase {
  const source = words(96, 2);
  return {
    name: 'named_barrier_sync, named_barrier_arrive',
    instruction: 'bar.sync and bar.arrive with a barrier and a count',
    source: 'primitives',
    entry: 'named_barriers',
    threads: 128,
    inputs: [bytes(source)],
    outputBytes: 384,
    rule: { bits: bytes(source.map((_, i) => source[(i & ~31) + 31 - (i & 31)]!)) },
  };
}

function mbarrierPhases(): PrimitiveCase {
  return {
    ...namedBarriers(),
    name: 'mbarrier_init, _arrive, _wait',
    instruction: 'mbarrier.init, mbarrier.arrive, mbarrier.try_wait.parity: three phases of two barriers',
    source: 'primitives_sm90a',
    entry: 'mbarrier_phases',
    threads: 64,
  };
}

/** Chunk c of a row lies at c XOR a phase: the row modulo 8, for rows of 64 bytes half the row modulo 4. */
function swizzledOffsets(): PrimitiveCase {
  const out = [64, 128, 256].flatMap((rowBytes) =>
    range(32, (row) =>
      range(
        rowBytes / 16,
        (chunk) => row * rowBytes + 16 * (chunk ^ (rowBytes === 64 ? Math.floor(row / 2) % 4 : row % 8)),
      ),
    ).flat(),
  );
  return {
    name: 'swizzled_offset',
    instruction: 'none: address arithmetic',
    source: 'primitives',
    entry: 'swizzled_offsets',
    threads: 32,
    inputs: [],
    outputBytes: 4 * out.length,
    rule: { bits: bytes(Uint32Array.from(out)) },
  };
}

function tma(): PrimitiveCase {
  const tensor = Uint16Array.from(range(2 * 40 * 64, (i) => (i * 40503) & 0xffff));
  const tile = new Uint16Array(16 * 64);
  for (let row = 0; row < 16; ++row)
    for (let column = 0; column < 64; ++column)
      tile[row * 64 + 8 * ((column >> 3) ^ (row % 8)) + (column % 8)] =
        32 + row < 40 ? tensor[(40 + 32 + row) * 64 + column]! : 0;
  return {
    name: 'tma_load_3d, mbarrier_arrive_expect_bytes',
    instruction: 'cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes',
    source: 'primitives_sm90a',
    entry: 'tma_box',
    threads: 32,
    inputs: [bytes(tensor)],
    tensorMap: { dimensions: [64, 40, 2], strides: [128, 40 * 128], box: [64, 16, 1] },
    outputBytes: tile.byteLength,
    rule: { bits: bytes(tile) },
  };
}

/** Two CTAs of a cluster write into each other's shared memory: each gives what the other had, turned round. */
function cluster(): PrimitiveCase {
  const source = words(64, 4);
  return {
    name: 'cluster_rank, cluster_smem, cluster_arrive, cluster_wait',
    instruction: 'mapa.u64, barrier.cluster.arrive.release and .wait.acquire, %cluster_ctarank',
    source: 'primitives_sm90a',
    entry: 'cluster_exchange',
    threads: 32,
    ctas: 2,
    inputs: [bytes(source)],
    outputBytes: 256,
    rule: { bits: bytes(source.map((_, i) => source[63 - i]!)) },
  };
}

function registersMoved(): PrimitiveCase {
  const source = words(128, 3);
  const out = range(128, (thread) =>
    range(
      128,
      (i) => (Math.imul(source[(thread + i) % 128]!, i + 1) ^ source[127 - ((thread + i) % 128)]!) >>> 0,
    ).reduce((sum, each) => (sum + each) >>> 0, 0),
  );
  return {
    name: 'registers_increase, registers_decrease',
    instruction: 'setmaxnreg.inc and .dec',
    source: 'primitives_sm90a',
    entry: 'registers_moved',
    threads: 256,
    inputs: [bytes(source)],
    outputBytes: 512,
    rule: { bits: bytes(Uint32Array.from(out)) },
  };
}

export const PRIMITIVES: PrimitiveCase[] = [
  packHalf2(),
  exp2Approx(),
  ldmatrix(4, false),
  ldmatrix(4, true),
  ldmatrix(2, false),
  ldmatrix(2, true),
  stmatrix(),
  mma('f32', exact, 'mma_m16n8k16_f32, exact sums'),
  mma('f32', normals, 'mma_m16n8k16_f32, N(0, 1)'),
  mma('f16', exact, 'mma_m16n8k16_f16, exact sums'),
  cpAsync(),
  namedBarriers(),
  swizzledOffsets(),
  mbarrierPhases(),
  tma(),
  wgmma(64, 'rs'),
  wgmma(128, 'rs'),
  wgmma(192, 'rs'),
  wgmma(64, 'rs_bt'),
  wgmma(72, 'rs_bt'),
  wgmma(128, 'rs_bt'),
  wgmma(136, 'rs_bt'),
  wgmma(128, 'ss'),
  wgmma(128, 'rs', normals),
  wgmma(128, 'rs_bt', normals),
  cluster(),
  registersMoved(),
];

const entriesOf = (source: string): string[] => [
  ...new Set(PRIMITIVES.filter((each) => each.source === source).map(({ entry }) => entry)),
];
export const PRIMITIVE_SUITE: Suite = {
  primitives: { entries: entriesOf('primitives') },
  primitives_sm90: { entries: entriesOf('primitives_sm90'), needs: 'sm_90' },
  primitives_sm90a: { entries: entriesOf('primitives_sm90a'), needs: 'sm_90a' },
};
