/** Copies, barriers, addresses, clusters, and moving registers between warps. */
import type { PrimitiveCase } from './bench.ts';
import { range, bytes, words } from './test-numbers.ts';

export function cpAsync(): PrimitiveCase {
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

export function namedBarriers(): PrimitiveCase {
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

export function mbarrierPhases(): PrimitiveCase {
  return {
    ...namedBarriers(),
    name: 'mbarrier_init, _arrive, _wait, _complete',
    instruction: 'mbarrier.init, .arrive, .try_wait.parity, .test_wait.parity: three phases of two barriers',
    source: 'primitives_sm90a',
    entry: 'mbarrier_phases',
    threads: 64,
  };
}

/** Chunk c of a row is stored at c XOR phase. The phase is row % 8, or (row / 2) % 4 for rows of 64 bytes. */
export function swizzledOffsets(): PrimitiveCase {
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

/** Selects rows of one head; all fields count elements. */
interface Rows {
  first: number;
  stride: number;
  elements: number;
}

/** A box of 16 rows from row 32 on, eight of them past the end, in the layout of the 128-byte swizzle. */
function tmaBox(
  at: Pick<PrimitiveCase, 'name' | 'instruction' | 'entry'>,
  tensorMap: NonNullable<PrimitiveCase['tensorMap']>,
  { first, stride, elements }: Rows,
): PrimitiveCase {
  const tensor = Uint16Array.from(range(elements, (i) => (i * 40503) & 0xffff));
  const tile = new Uint16Array(16 * 64);
  for (let row = 0; row < 16; ++row)
    for (let column = 0; column < 64; ++column)
      tile[row * 64 + 8 * ((column >> 3) ^ (row % 8)) + (column % 8)] =
        32 + row < 40 ? tensor[first + (32 + row) * stride + column]! : 0;
  return {
    ...at,
    source: 'primitives_sm90a',
    threads: 32,
    inputs: [bytes(tensor)],
    tensorMap,
    outputBytes: tile.byteLength,
    rule: { bits: bytes(tile) },
  };
}

export const tma = (): PrimitiveCase =>
  tmaBox(
    {
      name: 'tma_load_3d, mbarrier_arrive_expect_bytes',
      instruction: 'cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes',
      entry: 'tma_box',
    },
    { dimensions: [64, 40, 2], strides: [128, 40 * 128], box: [64, 16, 1] },
    { first: 40 * 64, stride: 64, elements: 2 * 40 * 64 },
  );

export const tmaOfBatch = (): PrimitiveCase =>
  tmaBox(
    {
      name: 'tma_load_4d',
      instruction: 'cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes',
      entry: 'tma_box_of_batch',
    },
    { dimensions: [64, 40, 3, 2], strides: [3 * 128, 128, 40 * 3 * 128], box: [64, 16, 1, 1] },
    { first: (40 * 3 + 1) * 64, stride: 3 * 64, elements: 2 * 40 * 3 * 64 },
  );

export function bulkLoad(): PrimitiveCase {
  const source = words(64, 5);
  return {
    name: 'bulk_load',
    instruction: 'cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes',
    source: 'primitives_sm90a',
    entry: 'bulk_words',
    threads: 32,
    inputs: [bytes(source)],
    outputBytes: 128,
    rule: { bits: bytes(source.slice(32)) },
  };
}

export function bulkReduceAdd(): PrimitiveCase {
  const numbers = range(512, (i) => ((i * 40503) % 4001) - 2000);
  const sums = range(128, (i) => range(4, (row) => numbers[128 * row + i]!).reduce((sum, each) => sum + each, 0));
  return {
    name: 'bulk_reduce_add, bulk_commit, bulk_wait_read',
    instruction: 'cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32, commit_group, wait_group.read',
    source: 'primitives_sm90a',
    entry: 'bulk_sums',
    threads: 128,
    inputs: [bytes(Float32Array.from(numbers))],
    outputBytes: 512,
    rule: { bits: bytes(Float32Array.from(sums)) },
  };
}

/** Two CTAs of a cluster write into each other's shared memory. Each outputs the other's values in reverse order. */
export function cluster(): PrimitiveCase {
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

export function registersMoved(): PrimitiveCase {
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
