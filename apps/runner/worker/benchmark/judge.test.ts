/** The judge on the emulator: inputs that no two launches share, and what its checks find of a build. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attentionCase, elementsOfTensor, type LaunchPlan, type ShapeFields } from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BuildTools } from '../../src/build/build-tools.ts';
import { ArtifactStore } from '../../src/store/artifacts.ts';
import { CudaDriver } from '../driver/cuda-driver.ts';
import type { LoadedCandidate } from '../driver/loaded-candidate.ts';
import { loadReference, type Reference } from '../driver/reference.ts';
import { emptyBits, outputOf, tensorOf, type TensorBits } from '../driver/tensor-bits.ts';
import type { Candidate } from '../messages/launchable.ts';
import { fileURLToPath } from 'node:url';
import { drawnHeadCounts } from './drawn-heads.ts';
import { Judge } from './judge.ts';
import { OutputLedger } from './output-ledger.ts';

const root = fileURLToPath(new URL('../../../..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'fc-judge-'));
const TOLERANCE = { absolute: 1e-3, relative: 1e-2 };
let driver: CudaDriver;
let reference: Reference;
let judgeImage: string;

beforeAll(async () => {
  const listener = { signal: AbortSignal.timeout(300_000) };
  const tools = new BuildTools({
    repositoryRoot: root,
    dataDirectory: folder,
    kernelsFolder: join(root, 'kernels'),
    artifacts: new ArtifactStore(join(folder, 'artifacts')),
    libraryCache: process.env['FLASHCORE_LIBRARY_CACHE'],
    engine: 'fibres',
  });
  driver = new CudaDriver(await tools.libraries.emulator(listener), 0);
  reference = loadReference(await tools.libraries.reference(listener));
  judgeImage = await tools.libraries.judge({ arch: driver.facts.arch, emulated: true }, listener);
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What a build does in a launch, on the host: the inputs are as the device has them, and O is what it gives. */
type Launch = (inputs: AttentionInputs, launch: Addresses) => TensorBits | undefined;
interface AttentionInputs extends Record<'Q' | 'K' | 'V', TensorBits> {
  dtype: LaunchPlan['dtype'];
}
type Addresses = Parameters<LoadedCandidate['prepare']>[0]['tensors'];

const emptyOutput = (shape: ShapeFields, dtype: LaunchPlan['dtype']): TensorBits =>
  emptyBits(elementsOfTensor(outputOf(attentionCase(shape, dtype))), dtype);

/** A build whose launches are JavaScript. */
function built(shape: ShapeFields, dtype: LaunchPlan['dtype'], launch: Launch): LoadedCandidate {
  const candidate: Candidate = {
    image: '',
    plan: { ...attentionCase(shape, dtype), launches: [], workspace: [] },
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
      const tensors = prepared.get(key)!;
      driver.synchronize();
      const read = (tensor: 'Q' | 'K' | 'V'): TensorBits => {
        const values = emptyOutput(shape, dtype);
        driver.download(values, tensors[tensor]!);
        return values;
      };
      const output = launch({ dtype, Q: read('Q'), K: read('K'), V: read('V') }, tensors);
      if (output) driver.upload(tensors['O']!, output);
    },
  } as unknown as LoadedCandidate;
}

/** What the ledger says after samples of so many launches. */
async function judged(shape: ShapeFields, dtype: LaunchPlan['dtype'], launch: Launch, samples = 3): Promise<string> {
  const loaded = built(shape, dtype, launch);
  const judge = await Judge.open(
    { driver, reference, judgeImage },
    { builds: [loaded.candidate], seed: '7', tolerance: TOLERANCE },
  );
  const ledger = new OutputLedger(loaded.candidate.plan);
  const pool = judge.pool(5);
  const build = pool.build(loaded, ledger);
  for (let sample = 0; sample < samples; ++sample) {
    build.renew();
    build.enqueue();
    build.check();
  }
  pool.free();
  judge.close();
  return ledger.report().detail;
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
    `$batch x $heads x $sequenceLength x $headDim, causal $causal, ${dtype}: the reference is right`,
    async (shape) => {
      expect(await judged(shape, dtype, honest(shape))).toBe(
        'right: every output of 15 launches, each on inputs of its own',
      );
    },
  );

test('no two launches have a head of Q and a head of K in common, nor any row of a former sample', async () => {
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

test('one element that is wrong in one launch of fifteen is found, with its place', async () => {
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

test('an output that nobody wrote, one that is not finite, and that of the launch before are wrong', async () => {
  const [shape] = SHAPES as [ShapeFields];
  expect(await judged(shape, 'fp16', () => undefined)).toMatch(/^in 3 samples of 15 launches; .* elements are outside/);
  const nan: Launch = () => emptyOutput(shape, 'fp16').fill(0x7e00);
  expect(await judged(shape, 'fp16', nan)).toContain('31680 of 31680 elements are outside the tolerance');
  let kept: TensorBits | undefined;
  expect(await judged(shape, 'fp16', (inputs, addresses) => (kept ??= honest(shape)(inputs, addresses)))).toMatch(
    /^in 3 samples of 15 launches; .* elements are outside/,
  );
});

test('a launch that changes its inputs, or the bytes around its output, is found', async () => {
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

test('heads of a launch have pairs of drawn heads that differ', () => {
  for (const heads of [1, 2, 16, 64, 100]) {
    const { qBases, kvBases } = drawnHeadCounts(heads);
    for (const distance of [0, 1, 7])
      expect(
        new Set(Array.from({ length: heads }, (_, head) => `${head % qBases} ${(head + distance) % kvBases}`)).size,
      ).toBe(heads);
  }
});
