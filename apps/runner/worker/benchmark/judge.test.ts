/** Tests the judge on the emulator: no two launches share inputs, and its checks find a build's mistakes. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  attentionCase,
  elementsOfTensor,
  installedProblem,
  parseCases,
  problemCase,
  type LaunchPlan,
  type ProblemCase,
  type ShapeFields,
} from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { BuildTools } from '../../src/build/build-tools.ts';
import { CudaDriver } from '../driver/cuda-driver.ts';
import type { LoadedCandidate } from '../driver/loaded-candidate.ts';
import { loadReference, type Reference } from '../driver/reference.ts';
import {
  emptyBits,
  outputOf,
  tensorOf,
  valueReader,
  type TensorBits,
  type TensorsByName,
} from '../driver/tensor-bits.ts';
import type { Candidate, InputRule } from '../messages/launchable.ts';
import { fileURLToPath } from 'node:url';
import { drawnHeadCounts } from './drawn-heads.ts';
import { DrawnAhead, Judge } from './judge.ts';
import { OutputLedger } from './output-ledger.ts';
import { openSampler } from './samplers.ts';
import { Trials } from './trial-samples.ts';

const root = fileURLToPath(new URL('../../../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'fc-judge-'));
const TOLERANCE = { absolute: 1e-3, relative: 1e-2 };
const TIGHT = { absolute: 1e-4, relative: 1e-4 };
let driver: CudaDriver;
let reference: Reference;
let judgeImage: string;

beforeAll(async () => {
  const listener = { signal: AbortSignal.timeout(300_000) };
  const tools = new BuildTools({
    repositoryRoot: root,
    dataDirectory: folder,
    libraryCache: process.env['FLASHCORE_LIBRARY_CACHE'],
    engine: 'fibres',
  });
  driver = new CudaDriver(await tools.libraries.emulator(listener), 0);
  reference = loadReference(await tools.libraries.reference(listener));
  judgeImage = await tools.libraries.judge({ arch: driver.facts.arch, emulated: true }, listener);
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A launch of a build as a function on the host: gets the inputs as they are on the device and returns O. */
type Launch = (inputs: AttentionInputs, launch: Addresses) => TensorBits | undefined;
interface AttentionInputs extends Record<'Q' | 'K' | 'V', TensorBits> {
  dtype: LaunchPlan['dtype'];
}
type Addresses = Parameters<LoadedCandidate['prepare']>[0]['tensors'];

const emptyOutput = (shape: ShapeFields, dtype: LaunchPlan['dtype']): TensorBits =>
  emptyBits(elementsOfTensor(outputOf(attentionCase(shape, dtype))), dtype);

type CaseLaunch = (inputs: TensorsByName, addresses: Addresses) => TensorBits | undefined;

/** A build whose launches are JavaScript. */
function built(timed: ProblemCase, launch: CaseLaunch): LoadedCandidate {
  const candidate: Candidate = {
    image: '',
    plan: { ...timed, launches: [], accumulate: 'fp32', workspace: [] },
    launchLimitMs: 0,
  };
  const prepared = new Map<object, Addresses>();
  return {
    candidate,
    prepare: ({ tensors }: { tensors: Addresses }) => {
      const key = { specs: [], storage: [] };
      prepared.set(key, tensors);
      return key;
    },
    enqueue: (key: object) => {
      const addresses = prepared.get(key)!;
      driver.synchronize();
      const inputs = timed.tensors
        .filter(({ direction }) => direction === 'in')
        .map((tensor) => {
          const bits = emptyBits(elementsOfTensor(tensor), timed.dtype);
          driver.download(bits, addresses[tensor.name]!);
          return [tensor.name, bits] as const;
        });
      const output = launch(Object.fromEntries(inputs), addresses);
      if (output) driver.upload(addresses[outputOf(timed).name]!, output);
    },
  } as unknown as LoadedCandidate;
}

interface Judging {
  launches: number;
  samples: number;
  /** The rules of each trial; trials come before the samples. */
  trials?: readonly (readonly InputRule[])[];
  ownTolerances?: Record<string, typeof TOLERANCE>;
}

/** The ledger's text after this many samples of launches. */
async function ledgerText(
  loaded: LoadedCandidate,
  { launches, samples, trials = [], ownTolerances = {} }: Judging,
): Promise<string> {
  const judge = await Judge.open(
    { driver, reference, drawnAhead: new DrawnAhead(), judgeImage },
    {
      ...{ builds: [loaded.candidate], seed: '7', trials: trials.map((rules) => ({ rules })) },
      ...{ tolerance: TOLERANCE, ownTolerances, judgeRounding: true },
    },
  );
  const ledger = new OutputLedger(loaded.candidate.plan);
  const pool = judge.pool(launches);
  const build = pool.build(loaded, ledger);
  for (let sample = -judge.trials; sample < samples; ++sample) {
    build.use(Math.max(0, -sample));
    build.renew();
    build.enqueue();
    build.check();
  }
  pool.free();
  judge.close();
  return ledger.report().detail;
}

/** Judges a launch function of attention; see ledgerText(). */
async function judged(
  shape: ShapeFields,
  dtype: LaunchPlan['dtype'],
  launch: Launch,
  { samples = 3, trials = [] }: Partial<Pick<Judging, 'samples' | 'trials'>> = {},
): Promise<string> {
  const loaded = built(attentionCase(shape, dtype), (inputs, addresses) =>
    launch({ dtype, ...(inputs as Record<'Q' | 'K' | 'V', TensorBits>) }, addresses),
  );
  return ledgerText(loaded, { launches: 5, samples, trials });
}

const SHAPES: ShapeFields[] = [
  { batch: 1, heads: 3, sequenceLength: 33, headDim: 64, causal: false },
  { batch: 2, heads: 2, sequenceLength: 65, headDim: 32, causal: true },
  { batch: 1, heads: 1, sequenceLength: 8, headDim: 128, causal: false },
];
const honest =
  (shape: ShapeFields): Launch =>
  ({ dtype, Q, K, V }) =>
    tensorOf(Float32Array.from(reference.fp64({ Q, K, V }, attentionCase(shape, dtype))), dtype);

for (const dtype of ['fp16', 'bf16', 'fp32'] as const)
  test.each(SHAPES)(
    `the judge accepts the reference's output: $batch x $heads x $sequenceLength x $headDim, causal $causal, ${dtype}`,
    async (shape) => {
      expect(await judged(shape, dtype, honest(shape))).toBe(
        'right: every output of 15 launches, each on inputs of its own',
      );
    },
  );

test('no two launches share a head of Q and a head of K, and no row repeats from an earlier sample', async () => {
  const [shape] = SHAPES as [ShapeFields];
  const pairs: string[] = [];
  const queries: string[] = [];
  const length = shape.sequenceLength * shape.headDim;
  await judged(shape, 'fp16', (inputs) => {
    for (let head = 0; head < shape.heads; ++head) {
      const hex = (tensor: TensorBits): string =>
        Buffer.from(tensor.slice(head * length, (head + 1) * length).buffer).toString('base64');
      pairs.push(`${hex(inputs.Q)} ${hex(inputs.K)}`);
      queries.push(hex(inputs.Q));
    }
    return honest(shape)(inputs, {});
  });
  expect([pairs.length, new Set(pairs).size]).toEqual([45, 45]);
  const perSample = pairs.length / 3;
  const first = new Set(queries.slice(0, perSample));
  expect(queries.slice(perSample).filter((each) => first.has(each))).toEqual([]);
});

test('finds and locates one wrong element in one launch of fifteen', async () => {
  const [shape] = SHAPES as [ShapeFields];
  let launches = 0;
  const detail = await judged(shape, 'fp16', (inputs, addresses) => {
    const output = honest(shape)(inputs, addresses)!;
    launches += 1;
    // Launch 2 of the second sample; batch 0, head 1, row 2, column 3.
    if (launches === 7) output[(1 * shape.sequenceLength + 2) * shape.headDim + 3]! ^= 0x7000;
    return output;
  });
  expect(detail).toBe(
    'in 1 sample of 15 launches; the first: 1 of 31680 elements are outside the tolerance, the first in launch 2, batch 0, head 1, row 2, column 3',
  );
});

test('rejects an output that is not written, not finite, or left over from the previous launch', async () => {
  const [shape] = SHAPES as [ShapeFields];
  expect(await judged(shape, 'fp16', () => undefined)).toMatch(/^in 3 samples of 15 launches; .* elements are outside/);
  const nan: Launch = () => emptyOutput(shape, 'fp16').fill(0x7e00);
  expect(await judged(shape, 'fp16', nan)).toContain('31680 of 31680 elements are outside the tolerance');
  let kept: TensorBits | undefined;
  expect(await judged(shape, 'fp16', (inputs, addresses) => (kept ??= honest(shape)(inputs, addresses)))).toMatch(
    /^in 3 samples of 15 launches; .* elements are outside/,
  );
});

/** Off by one in 256: within a tolerance of 1e-2, and far beyond what rounding to fp16 explains. */
const imprecise = (output: TensorBits): TensorBits => {
  const valueAt = valueReader(output, 'fp16');
  return tensorOf(
    Float32Array.from(output, (_, index) => valueAt(index) * (1 + 2 ** -8)),
    'fp16',
  );
};
const BEYOND_ROUNDING =
  /^in 3 samples of \d+ launches; the first: each element is within the tolerance, but over rows of a launch the error is \d.\d+ times what rounding explains, and at most 2\.\d\d times is right$/;

test('rejects outputs with less precision than their dtype has', async () => {
  const [shape] = SHAPES as [ShapeFields];
  const less: Launch = (inputs, addresses) => imprecise(honest(shape)(inputs, addresses)!);
  expect(await judged(shape, 'fp16', less)).toMatch(BEYOND_ROUNDING);
  const timed = formOf(FORMS[0]!, 'fp16');
  expect(await judgedCase(timed, (inputs) => imprecise(answered(timed, inputs)), 3)).toMatch(BEYOND_ROUNDING);
});

test('finds a launch that changes its inputs or the bytes around its output', async () => {
  const [shape] = SHAPES as [ShapeFields];
  const writing =
    (place: (addresses: Addresses) => bigint): Launch =>
    (inputs, addresses) => {
      driver.upload(place(addresses), Uint16Array.of(0x1234));
      return honest(shape)(inputs, addresses);
    };
  expect(
    await judged(
      shape,
      'fp16',
      writing(({ K }) => K ?? 0n),
    ),
  ).toContain('the kernel changed K');
  expect(
    await judged(
      shape,
      'fp16',
      writing(({ O }) => O! - 2n),
    ),
  ).toContain('the kernel changed guard bytes');
});

/**
 * Records the addresses of everything that the judge uploads or allocates, so that tests find it by content or size.
 */
function watched(): { uploads: { address: bigint; bytes: Uint8Array }[]; allocated: Map<number, bigint> } & Disposable {
  const uploads: { address: bigint; bytes: Uint8Array }[] = [];
  const allocated = new Map<number, bigint>();
  const upload = vi.spyOn(driver, 'upload').mockImplementation((address, source) => {
    uploads.push({ address, bytes: new Uint8Array(source.buffer.slice(0), source.byteOffset, source.byteLength) });
    CudaDriver.prototype.upload.call(driver, address, source);
  });
  const allocate = vi.spyOn(driver, 'allocate').mockImplementation((bytes) => {
    const address = CudaDriver.prototype.allocate.call(driver, bytes);
    allocated.set(bytes, address);
    return address;
  });
  return {
    uploads,
    allocated,
    [Symbol.dispose]() {
      upload.mockRestore();
      allocate.mockRestore();
    },
  };
}

test('finds a launch that rewrites the table by which the judge finds outputs', async () => {
  const [shape] = SHAPES as [ShapeFields];
  using memory = watched();
  let launches = 0;
  const detail = await judged(shape, 'fp16', (inputs, addresses) => {
    launches += 1;
    if (launches % 5 !== 1) return undefined;
    // The table has three words for each launch. Every entry becomes a copy of the first, so that the judge would
    // compare only the first launch's output.
    const { address, bytes } = memory.uploads.find((each) => each.bytes.byteLength === 5 * 12)!;
    const table = new Uint32Array(bytes.slice().buffer);
    driver.upload(
      address,
      Uint32Array.from({ length: 15 }, (_, index) => table[index % 3]!),
    );
    return honest(shape)(inputs, addresses);
  });
  expect(detail).toMatch(/^in 3 samples of 15 launches; the first: the kernel changed the judge's own memory/);
});

test('finds a launch that changes the heads from which all inputs are made', async () => {
  const [shape] = SHAPES as [ShapeFields];
  using memory = watched();
  const detail = await judged(shape, 'fp16', (inputs, addresses) => {
    // Two heads of Q.
    const base = memory.uploads.find((each) => each.bytes.byteLength === 2 * 33 * 64 * 2)!;
    driver.upload(base.address, Uint16Array.of(0x1234));
    return honest(shape)(inputs, addresses);
  });
  expect(detail).toContain("the kernel changed the judge's own memory");
});

test("a launch that overwrites the judge's counts does not change the result", async () => {
  const [shape] = SHAPES as [ShapeFields];
  using memory = watched();
  const detail = await judged(shape, 'fp16', () => {
    // Lowers the count of wrong elements by as many as will be found.
    const counts = [...memory.allocated].find(([bytes]) => bytes % 8 === 0 && bytes < 256)![1];
    driver.upload(counts, BigInt64Array.of(BigInt(-5 * 33 * 64 * 3)));
    return emptyOutput(shape, 'fp16').fill(0x7e00);
  });
  expect(detail).toContain('31680 of 31680 elements are outside the tolerance');
});

const { probes } = parseCases(readFileSync(join(root, 'kernels/cases.yaml'), 'utf8'), 'cases.yaml');
const rulesOf = (...names: string[]): InputRule[] =>
  names.map((name) => probes.distributions.find((rule) => rule.name === name)!);

test.each(['fp16', 'bf16', 'fp32'] as const)(
  'an honest %s build passes trials on the values of probes',
  async (dtype) => {
    const [shape] = SHAPES as [ShapeFields];
    const trials = [
      rulesOf('offset', 'max_last', 'one_key', 'outliers'),
      rulesOf('max_first', 'few_values', 'repeated_rows'),
      rulesOf('equal_keys', 'stalled_sum', 'repeated_values', 'two_scales'),
      rulesOf('extremes'),
      rulesOf('around_448'),
    ];
    expect(await judged(shape, dtype, honest(shape), { samples: 1, trials })).toBe(
      'right: every output of 30 launches, each on inputs of its own',
    );
  },
);

test('trials find a build that is correct only for N(0, 1)', async () => {
  const [shape] = SHAPES as [ShapeFields];
  const clamping: Launch = ({ dtype, Q, K, V }, addresses) => {
    const valueAt = valueReader(V, 'fp16');
    const clamped = Float32Array.from(V, (_, index) => Math.max(-16, Math.min(16, valueAt(index))));
    return honest(shape)({ dtype, Q, K, V: tensorOf(clamped, 'fp16') }, addresses);
  };
  expect(await judged(shape, 'fp16', clamping)).toMatch(/^right/);
  expect(await judged(shape, 'fp16', clamping, { trials: [rulesOf('max_last', 'around_448')] })).toMatch(
    /^in 1 sample of 20 launches; .* elements are outside/,
  );
});

test('no two heads of a launch have the same pair of drawn heads', () => {
  for (const heads of [1, 2, 16, 64, 100]) {
    const { qBases, kvBases } = drawnHeadCounts(heads);
    for (const distance of [0, 1, 7])
      expect(
        new Set(Array.from({ length: heads }, (_, head) => `${head % qBases} ${(head + distance) % kvBases}`)).size,
      ).toBe(heads);
  }
});

/** Judges a launch function of any problem; see ledgerText(). */
const judgedCase = (
  timed: ProblemCase,
  launch: CaseLaunch,
  samples = 2,
  trials: Judging['trials'] = [],
): Promise<string> =>
  ledgerText(built(timed, launch), { launches: 4, samples, trials, ownTolerances: { strict: TIGHT } });

const FORMS = [
  { H: 4, Hkv: 2, Skv: 21, Dv: 24, causal: 0, window: -1, softcap: 0 },
  { H: 2, Hkv: 1, Skv: 17, Dv: 16, causal: 2, window: 5, softcap: 0 },
  { H: 3, Hkv: 3, Skv: 9, Dv: 16, causal: 0, window: -1, softcap: 2 },
];
const formOf = (form: (typeof FORMS)[number], dtype: LaunchPlan['dtype']): ProblemCase =>
  problemCase(installedProblem('attention'), { B: 2, S: 17, D: 16, ...form }, dtype);
const answered = (timed: ProblemCase, inputs: TensorsByName): TensorBits =>
  tensorOf(Float32Array.from(reference.fp64(inputs, timed)), timed.dtype);

for (const dtype of ['fp16', 'bf16', 'fp32'] as const)
  test.each(FORMS)(
    `the judge accepts the reference's output: Hkv $Hkv, Skv $Skv, Dv $Dv, causal $causal, window $window, softcap $softcap, ${dtype}`,
    async (form) => {
      const timed = formOf(form, dtype);
      expect(await judgedCase(timed, (inputs) => answered(timed, inputs))).toBe(
        'right: every output of 8 launches, each on inputs of its own',
      );
    },
  );

test('no two launches of any problem share inputs, and changed inputs and wrong elements are found', async () => {
  const timed = formOf(FORMS[0]!, 'fp16');
  const seen: string[] = [];
  await judgedCase(timed, (inputs) => {
    for (const name of ['Q', 'K', 'V']) seen.push(`${name} ${Buffer.from(inputs[name]!.buffer).toString('base64')}`);
    return answered(timed, inputs);
  });
  expect([seen.length, new Set(seen).size]).toEqual([24, 24]);
  const changing = await judgedCase(timed, (inputs, addresses) => {
    driver.upload(addresses['V']!, Uint16Array.of(0x1234));
    return answered(timed, inputs);
  });
  expect(changing).toContain('the kernel changed V');
  let launches = 0;
  const wrong = await judgedCase(timed, (inputs) => {
    const output = answered(timed, inputs);
    // Launch 2 of the second sample; batch 1, head 3, row 2, column 5.
    if (++launches === 6) output[((1 * 4 + 3) * 17 + 2) * 24 + 5]! ^= 0x7000;
    return output;
  });
  expect(wrong).toBe(
    'in 1 sample of 8 launches; the first: 1 of 13056 elements are outside the tolerance, the first in launch 2, batch 1, head 3, row 2, column 5',
  );
});

test('a symmetry that the problem lacks makes correct outputs fail; without symmetries the drawn sets differ', async () => {
  const timed = formOf(FORMS[1]!, 'fp16');
  const wrong: ProblemCase = { ...timed, symmetries: [{ act: 'flip', axis: 'D', dims: { Q: [3] } }] };
  expect(await judgedCase(wrong, (inputs) => answered(timed, inputs))).toContain('are outside the tolerance');
  const without: ProblemCase = { ...timed, symmetries: [] };
  expect(await judgedCase(without, (inputs) => answered(timed, inputs))).toBe(
    'right: every output of 8 launches, each on inputs of its own',
  );
});

test('checks every output of a case with several, each by its own tolerance', async () => {
  const values = { B: 2, H: 4, S: 17, D: 16, Hkv: 2, causal: 0 };
  const timed = problemCase(installedProblem('attention'), values, 'fp16', new Set(['LSE']));
  const withLse = (factor: number) =>
    judgedCase(timed, (inputs, addresses) => {
      const lse = reference.answers(inputs, timed).get('LSE')!.want;
      driver.upload(
        addresses['LSE']!,
        tensorOf(
          Float32Array.from(lse, (value) => value * factor),
          'fp32',
        ),
      );
      return answered(timed, inputs);
    });
  expect(await withLse(1)).toBe('right: every output of 8 launches, each on inputs of its own');
  expect(await withLse(1.01)).toMatch(
    /^in 2 samples of 8 launches; the first: 544 of 544 elements of LSE are outside the tolerance/,
  );
});

/** Right while no product of an element of Q and one of K can be larger than those of N(0, 1); zeros otherwise. */
const forSmallValues =
  (timed: ProblemCase): CaseLaunch =>
  (inputs) => {
    const [q, k] = ['Q', 'K'].map((name) => {
      const valueAt = valueReader(inputs[name]!, 'fp16');
      return Math.max(...Array.from(inputs[name]!, (_, index) => Math.abs(valueAt(index))));
    }) as [number, number];
    return q * k > 40 ? emptyBits(elementsOfTensor(outputOf(timed)), 'fp16') : answered(timed, inputs);
  };

test('trials of any problem find a build that is correct only for N(0, 1), and pass an honest one', async () => {
  const timed = formOf(FORMS[0]!, 'fp16');
  expect(await judgedCase(timed, forSmallValues(timed))).toMatch(/^right/);
  const trials = [rulesOf('max_last', 'around_448', 'few_values'), rulesOf('extremes')];
  expect(await judgedCase(timed, forSmallValues(timed), 2, trials)).toMatch(
    /^in 1 sample of 16 launches; .* elements are outside/,
  );
  expect(await judgedCase(timed, (inputs) => answered(timed, inputs), 2, trials)).toBe(
    'right: every output of 16 launches, each on inputs of its own',
  );
});

test('trials come among the timed samples, too: a build that counts launches does not know when they are over', async () => {
  const timed = formOf(FORMS[2]!, 'fp16');
  const trials = [rulesOf('max_last', 'offset', 'one_key', 'largest_keys')];
  let launches = 0;
  const loaded = built(timed, (inputs) =>
    (launches += 1) <= 1 ? answered(timed, inputs) : forSmallValues(timed)(inputs, {}),
  );
  const judge = await Judge.open(
    { driver, reference, drawnAhead: new DrawnAhead(), judgeImage },
    {
      ...{ builds: [loaded.candidate], seed: '7', trials: trials.map((rules) => ({ rules })) },
      ...{ tolerance: TOLERANCE, ownTolerances: {}, judgeRounding: true },
    },
  );
  const ledger = new OutputLedger(loaded.candidate.plan);
  const pool = judge.pool(1);
  const build = pool.build(loaded, ledger);
  const sampler = openSampler('cold', driver, { build, judge: judge.kernels });
  const among = new Trials(driver, { judge, build, mode: 'cold' });
  await among.all(() => Promise.resolve());
  expect(ledger.report().passed).toBe(true);
  // No trial in 300 samples: once in 250 million runs.
  for (let sample = 0; sample < 300; ++sample) {
    among.perhaps();
    sampler.sample();
  }
  expect(ledger.report().detail).toMatch(/^in \d+ samples? of \d+ launches; .* elements are outside/);
  for (const each of [among, sampler]) each.close();
  pool.free();
  judge.close();
});

test('a trial on numbers at the end of a dtype does not double them', async () => {
  const timed = problemCase(installedProblem('attention'), { B: 2, H: 2, S: 9, D: 16, Dv: 8 }, 'fp16');
  const largest = { ...rulesOf('largest_keys')[0]!, v: 'largest' as const };
  const seen = new Set<number>();
  await judgedCase(
    timed,
    (inputs) => {
      const valueAt = valueReader(inputs['V']!, 'fp16');
      for (const index of inputs['V']!.keys()) seen.add(Math.abs(valueAt(index)));
      return undefined;
    },
    0,
    [[largest]],
  );
  expect([...seen]).toEqual([65_504]);
});

test('inputs drawn with doubled values are exact, and the limits of these values are doubled too', async () => {
  const timed = formOf(FORMS[2]!, 'fp16');
  const largest: number[] = [];
  await judgedCase(timed, (inputs) => {
    const valueAt = valueReader(inputs['V']!, 'fp16');
    largest.push(Math.max(...Array.from(inputs['V']!, (_, index) => Math.abs(valueAt(index)))));
    return answered(timed, inputs);
  });
  expect(largest.every((value) => value > 2 && value < 12)).toBe(true);
});

test.each([
  [
    'one drawn head of plain attention',
    attentionCase({ batch: 1, heads: 3, sequenceLength: 9, headDim: 8, causal: true }, 'fp16'),
  ],
  [
    'a drawn input set of another problem, without the optional output',
    problemCase(
      installedProblem('attention_decode'),
      { B: 3, H: 4, Hkv: 2, S: 2, Skv: 5, D: 8 },
      'bf16',
      new Set(['LSE']),
    ),
  ],
])('the file for rivals has %s with the correct output', async (_, timed) => {
  const plan: LaunchPlan = { ...timed, launches: [], workspace: [] } as never;
  const judge = await Judge.open(
    { driver, reference, drawnAhead: new DrawnAhead(), judgeImage },
    {
      builds: [{ image: '', plan, launchLimitMs: 1 }],
      ...{ seed: '7', trials: [], tolerance: TOLERANCE, ownTolerances: {}, judgeRounding: true },
    },
  );
  const path = join(folder, `drawn-${timed.problem}`);
  judge.writeDrawn(path);
  judge.close();
  const bytes = new Uint8Array(readFileSync(path)).buffer;
  let offset = 0;
  const next = (length: number, width: number): ArrayBuffer => {
    const part = bytes.slice(offset, offset + length * width);
    offset += Math.ceil((length * width) / 16) * 16;
    return part;
  };
  const inputs = Object.fromEntries(
    timed.tensors
      .filter(({ direction }) => direction === 'in')
      .map((tensor) => {
        const bits = emptyBits(elementsOfTensor(tensor), tensor.dtype);
        return [tensor.name, new (bits.constructor as typeof Uint16Array)(next(bits.length, bits.BYTES_PER_ELEMENT))];
      }),
  );
  const output = outputOf(timed);
  const given = new Float32Array(next(elementsOfTensor(output), 4));
  expect(offset).toBe(bytes.byteLength);
  const { want } = reference.answers(inputs, timed).get(output.name)!;
  expect(Math.max(...want.map((value, index) => Math.abs(value - given[index]!)))).toBeLessThan(1e-6);
  expect(Math.max(...given)).toBeGreaterThan(0.5);
});
