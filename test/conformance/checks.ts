/**
 * Checks everything that the worker relies on in a CUDA driver library. Each check runs in a process of its own,
 * because a fault poisons a context.
 */
import assert from 'node:assert/strict';
import type { Bench } from './bench.ts';

export interface Check {
  name: string;
  run(bench: Bench): void;
}

const range = (length: number, value: (index: number) => number): number[] =>
  Array.from({ length }, (_, index) => value(index));
/** Small integers as fp16. They are exact in fp16, and their products and sums are exact in fp32. */
const exactHalves = (length: number, seed: number): Float16Array =>
  Float16Array.from(range(length, (i) => (((i * 37 + seed * 11) % 17) - 8) / 2));

const checks: Check[] = [
  {
    name: 'device attributes are those of a device',
    run({ driver: { facts } }) {
      assert.match(facts.arch, /^sm_\d+$/);
      for (const key of [
        'multiprocessors',
        'memoryBytes',
        'l2Bytes',
        'smemOptinBytes',
        'smemPerMultiprocessorBytes',
        'registersPerMultiprocessor',
      ] as const)
        assert.ok(facts[key] > 0, key);
      assert.ok(facts.smemOptinBytes > 48 * 1024);
    },
  },
  {
    name: 'memory: upload, fill in 8 and 16 bits, download',
    run(bench) {
      const address = bench.upload(Uint8Array.from(range(64, (i) => i)));
      bench.driver.fill8(address + 8n, 0xab, 8);
      bench.driver.fill16(address + 32n, 0x7e01, 4);
      const wanted = range(64, (i) => i)
        .fill(0xab, 8, 16)
        .map((byte, i) => (i >= 32 && i < 40 ? [0x01, 0x7e][i % 2]! : byte));
      assert.deepEqual([...bench.download(new Uint8Array(64), address)], wanted);
    },
  },
  {
    name: 'grid and block indices in three dimensions',
    run(bench) {
      const out = bench.upload(new Int32Array(2 * 3 * 4 * 30));
      bench.enqueue('basics', 'indices', [{ pointer: out }], { grid: [4, 3, 2], block: [5, 3, 2] });
      assert.deepEqual(
        [...bench.download(new Int32Array(720), out)],
        range(720, (i) => Math.floor(i / 30) * 10000 + (i % 30)),
      );
    },
  },
  {
    name: 'arguments: pointers, int32 and float32 in mixed order',
    run(bench) {
      const out = bench.upload(new Float32Array(32));
      const values = bench.upload(Float32Array.from(range(32, (i) => i / 4)));
      bench.enqueue(
        'basics',
        'arguments',
        [{ pointer: out }, { int32: -3 }, { pointer: values }, { float32: 0.5 }, { int32: 1000 }],
        { block: [32, 1, 1] },
      );
      assert.deepEqual(
        [...bench.download(new Float32Array(32), out)],
        range(32, (i) => (-3 * i) / 4 + 0.5 - 1000),
      );
    },
  },
  {
    name: 'dynamic shared memory, also above 48 KB after the opt-in',
    run(bench) {
      for (const sharedBytes of [4096, 96 * 1024]) {
        const values = bench.upload(Int32Array.from(range(1024, (i) => i * i)));
        bench.enqueue('basics', 'reverse_through_smem', [{ pointer: values }], { block: [1024, 1, 1], sharedBytes });
        assert.deepEqual(
          [...bench.download(new Int32Array(1024), values)],
          range(1024, (i) => (1023 - i) ** 2),
        );
      }
    },
  },
  {
    name: '__syncthreads in a loop with divergent work',
    run(bench) {
      const values = bench.upload(Int32Array.from(range(256, (i) => i * 3)));
      const out = bench.upload(new Int32Array(1));
      bench.enqueue('basics', 'tree_sum', [{ pointer: values }, { pointer: out }], { block: [256, 1, 1] });
      assert.equal(bench.download(new Int32Array(1), out)[0], (3 * 255 * 256) / 2);
    },
  },
  {
    name: 'shuffles, votes and warp reduction',
    run(bench) {
      const value = (lane: number): number => (lane * 13 + 5) % 29;
      const values = bench.upload(Int32Array.from(range(32, value)));
      const out = bench.upload(new Int32Array(7 * 32));
      bench.enqueue('basics', 'warp_exchanges', [{ pointer: values }, { pointer: out }], { block: [32, 1, 1] });
      const ballot =
        range(32, (lane) => (value(lane) % 3 === 0 ? 2 ** lane : 0)).reduce((sum, bit) => sum + bit, 0) | 0;
      const sum = range(32, value).reduce((total, next) => total + next, 0);
      const wanted = [
        ...range(32, (lane) => value(lane ^ 5)),
        ...range(32, (lane) => value(lane < 3 ? lane : lane - 3)),
        ...range(32, (lane) => value((lane % 8) + 3 < 8 ? lane + 3 : lane)),
        ...range(32, (lane) => value((lane * 7) % 32)),
        ...range(32, () => ballot),
        ...range(32, () => 3),
        ...range(32, () => sum),
      ];
      assert.deepEqual([...bench.download(new Int32Array(7 * 32), out)], wanted);
    },
  },
  {
    name: 'atomicAdd from many blocks',
    run(bench) {
      const n = 10_000;
      const values = bench.upload(Int32Array.from(range(n, (i) => i * i)));
      const bins = bench.upload(new Int32Array(16));
      bench.enqueue('basics', 'count_bins', [{ pointer: values }, { pointer: bins }, { int32: n }], {
        grid: [40, 1, 1],
        block: [256, 1, 1],
      });
      assert.deepEqual(
        [...bench.download(new Int32Array(16), bins)],
        range(16, (bin) => range(n, (i) => (((i * i) & 15) === bin ? 1 : 0)).reduce((a, b) => a + b, 0)),
      );
    },
  },
  {
    name: 'fp32 to fp16 rounds to nearest even, subnormals and infinities included',
    run(bench) {
      // Every fp16 value that is a number, and the midpoints between neighbors, where rounding decides.
      const all = new Float16Array(Uint16Array.from(range(0x10000, (i) => i)).buffer);
      const finite = [...all].filter((value) => Number.isFinite(value));
      const sorted = finite.toSorted((a, b) => a - b);
      const values = Float32Array.from([
        ...finite,
        ...sorted.slice(1).map((value, i) => (value + sorted[i]!) / 2),
        65519,
        65520,
        1e9,
        -1e9,
        1e-9,
      ]);
      const halves = bench.upload(new Uint16Array(values.length));
      const back = bench.upload(new Float32Array(values.length));
      bench.enqueue(
        'basics',
        'convert_half',
        [{ pointer: bench.upload(values) }, { pointer: halves }, { pointer: back }, { int32: values.length }],
        { grid: [Math.ceil(values.length / 256), 1, 1], block: [256, 1, 1] },
      );
      const wanted = Float16Array.from(values);
      assert.deepEqual(bench.download(new Uint16Array(values.length), halves), new Uint16Array(wanted.buffer));
      assert.deepEqual(bench.download(new Float32Array(values.length), back), Float32Array.from(wanted));
    },
  },
  {
    name: 'wmma m16n16k16, fp32 accumulation',
    run: (bench) => checkProduct(bench, 'wmma_product', 16),
  },
  {
    name: 'cp.async, ldmatrix and mma.sync m16n8k16',
    run: (bench) => checkProduct(bench, 'mma_product', 8),
  },
  {
    name: 'a captured graph runs its launches at every replay, and not while it is captured',
    run(bench) {
      const out = bench.upload(new Int32Array(64));
      const graph = bench.driver.captureGraph(() => {
        for (let i = 0; i < 10; ++i) bench.enqueue('basics', 'increment', [{ pointer: out }], { block: [64, 1, 1] });
      });
      assert.deepEqual(
        [...bench.download(new Int32Array(64), out)],
        range(64, () => 0),
      );
      for (let i = 0; i < 3; ++i) bench.driver.launchGraph(graph);
      assert.deepEqual(
        [...bench.download(new Int32Array(64), out)],
        range(64, () => 30),
      );
      bench.driver.destroyGraph(graph);
    },
  },
  {
    name: 'events measure the time between them',
    run(bench) {
      const [start, end] = [bench.driver.createEvent(), bench.driver.createEvent()];
      const out = bench.upload(new Int32Array(64));
      bench.driver.recordEvent(start);
      for (let i = 0; i < 100; ++i) bench.enqueue('basics', 'increment', [{ pointer: out }], { block: [64, 1, 1] });
      bench.driver.recordEvent(end);
      const elapsedUs = bench.driver.elapsedUs(start, end);
      assert.ok(elapsedUs > 0 && elapsedUs < 1e6, `${elapsedUs} us`);
    },
  },
  refusal('a block of 1025 threads', /CUDA_ERROR_INVALID_VALUE/, (bench) =>
    bench.enqueue('basics', 'increment', [{ pointer: bench.upload(new Int32Array(2048)) }], { block: [1025, 1, 1] }),
  ),
  refusal('more dynamic shared memory than the opt-in limit', /CUDA_ERROR_INVALID_VALUE/, (bench) =>
    bench.enqueue('basics', 'reverse_through_smem', [{ pointer: bench.upload(new Int32Array(64)) }], {
      block: [64, 1, 1],
      sharedBytes: bench.driver.facts.smemOptinBytes + 1024,
    }),
  ),
  refusal(
    'an entry that the module does not have',
    /CUDA_ERROR_NOT_FOUND/,
    (bench) => void bench.driver.function(bench.module('basics'), 'no_such_entry', { sharedBytes: 0, cluster: false }),
  ),
  refusal(
    'more memory than the device has',
    /CUDA_ERROR_OUT_OF_MEMORY/,
    (bench) => void bench.driver.allocate(2 ** 50),
  ),
  refusal('a write far outside every buffer', /CUDA_ERROR_ILLEGAL_ADDRESS/, (bench) => {
    bench.enqueue('faults', 'write_far_out', [{ pointer: bench.upload(new Int32Array(64)) }], { block: [32, 1, 1] });
    bench.driver.synchronize();
  }),
  refusal('a 16-byte read at an address that is a multiple of 4', /CUDA_ERROR_MISALIGNED_ADDRESS/, (bench) => {
    bench.enqueue(
      'faults',
      'read_misaligned',
      [{ pointer: bench.upload(new Int32Array(256)) }, { pointer: bench.upload(new Int32Array(256)) }],
      { block: [32, 1, 1] },
    );
    bench.driver.synchronize();
  }),
  refusal('__trap', /CUDA_ERROR_(LAUNCH_FAILED|ILLEGAL_INSTRUCTION)/, (bench) => {
    bench.enqueue('faults', 'trap_now', [{ pointer: bench.upload(new Int32Array(1)) }], { block: [32, 1, 1] });
    bench.driver.synchronize();
  }),
  {
    name: 'after a fault every later call of the context fails too',
    run(bench) {
      const trap = (): void => {
        bench.enqueue('faults', 'trap_now', [{ pointer: bench.upload(new Int32Array(1)) }], { block: [32, 1, 1] });
        bench.driver.synchronize();
      };
      assert.throws(trap);
      assert.throws(() => bench.driver.synchronize());
      assert.throws(() => bench.upload(new Int32Array(1)));
    },
  },
];

export default checks;

function refusal(what: string, error: RegExp, attempt: (bench: Bench) => void): Check {
  return { name: `${what} is ${error.source}`, run: (bench) => assert.throws(() => attempt(bench), error) };
}

/** C = A B of one warp against a triple loop. All values are exact, so any order of summation gives the same bits. */
function checkProduct(bench: Bench, entry: string, columns: number): void {
  const A = exactHalves(16 * 16, 1);
  const B = exactHalves(16 * columns, 2);
  const C = bench.upload(new Float32Array(16 * columns));
  bench.enqueue('tensor_cores', entry, [{ pointer: bench.upload(A) }, { pointer: bench.upload(B) }, { pointer: C }], {
    block: [32, 1, 1],
  });
  const wanted = range(16 * columns, (i) =>
    range(16, (k) => A[Math.floor(i / columns) * 16 + k]! * B[k * columns + (i % columns)]!).reduce(
      (sum, product) => sum + product,
      0,
    ),
  );
  assert.deepEqual([...bench.download(new Float32Array(16 * columns), C)], wanted);
}
