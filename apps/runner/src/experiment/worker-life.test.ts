import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FindingKind } from '@flashcore/shared/contract';
import { parseManifest, parseShape, planLaunches, resolveVariant } from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Candidate, SeededInput } from '../../worker/messages/launchable.ts';
import type { VerifiedOutput, VerifyRequest } from '../../worker/messages/verifying.ts';
import { BuildTools } from '../build/build-tools.ts';
import { deviceHeaders, emulatorHeaders } from '../build/host-libraries.ts';
import { CompileCache } from '../build/compile-cache.ts';
import type { KernelBuild } from '../build/compiled-kernel.ts';
import { KernelBuilder } from '../build/kernel-builder.ts';
import { Toolchain } from '../build/toolchain.ts';
import { ArtifactStore } from '../store/artifacts.ts';
import { TEST_HOST } from '../testing/test-host.ts';
import { DeviceWorker } from '../workers/device-worker.ts';
import { findingOf } from '../findings/fault-findings.ts';

const repositoryRoot = fileURLToPath(new URL('../../../../', import.meta.url));
const kernelsFolder = join(repositoryRoot, 'kernels');
const signal = new AbortController().signal;
const INPUT: SeededInput = {
  seed: 'c0ffee',
  rule: { name: 'normal', q: 'normal', k: 'normal', v: 'normal', logitScale: 1, valueScale: 1 },
};

let folder: string;
let tools: BuildTools;
let worker: DeviceWorker;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'flashcore-worker-'));
  tools = new BuildTools({
    repositoryRoot,
    dataDirectory: folder,
    ...TEST_HOST,
  });
  worker = new DeviceWorker({
    deviceId: 'emulator',
    open: async () => ({
      library: await tools.libraries.emulator({ signal }),
      referenceLibrary: await tools.libraries.reference({ signal }),
      deviceOrdinal: 0,
    }),
    canary: () => tools.libraries.canary({ arch: 'sm_89', emulated: true }, { signal }),
  });
});

afterAll(async () => {
  await worker.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Compiles a kernel of the repository, and plans its launches for one small shape. */
async function buildOf(
  path: string,
  builder: KernelBuilder,
  launchLimitMs = 30_000,
): Promise<{ candidate: Candidate; build: KernelBuild }> {
  const kernelFolder = join(kernelsFolder, path);
  const manifest = parseManifest(readFileSync(join(kernelFolder, 'kernel.yaml'), 'utf8'), path);
  const resolved = resolveVariant(manifest, {});
  const plan = planLaunches(manifest, resolved, parseShape('1x1x64x64'));
  const entries = manifest.launches.map(({ entry }) => entry);
  const spec = {
    kernelId: manifest.id,
    folder: kernelFolder,
    source: manifest.source,
    folderDigest: '',
    resolved,
    arch: 'sm_89',
    emulated: true,
    entries,
    launches: plan.launches,
  };
  const build = await builder.build(spec, { signal });
  return {
    build,
    candidate: {
      image: build.image!,
      plan,
      launchLimitMs,
    },
  };
}

async function verifyRequest(path: string, launchLimitMs?: number): Promise<VerifyRequest> {
  return {
    type: 'verify',
    candidate: (await buildOf(path, tools.kernels, launchLimitMs)).candidate,
    inputs: [INPUT],
    tolerance: { absolute: 1e-2, relative: 1e-2 },
    ownTolerances: {},
    judgeRounding: true,
    checkDeterminism: true,
    reportPlain: true,
    tellOutputs: 0,
  };
}

test(
  'a worker verifies, keeps its process, reports a fault with its source line, and serves again after the canary',
  { timeout: 180_000 },
  async () => {
    const good = await verifyRequest('fa_v1_baseline');
    const before = await worker.request(good, { signal });
    const fault = await worker.request(await verifyRequest('faulty/out_of_bounds'), { signal });
    const after = await worker.request(good, { signal });
    expect(before).toMatchObject({
      status: 'done',
      value: {
        figures: { deterministic: true },
        outputs: [{ name: 'O', figures: { mismatches: 0n } }],
        modified: [],
        flashAttentionRule: true,
      },
    });
    expect(fault).toMatchObject({
      status: 'fault',
      fault: {
        name: 'CUDA_ERROR_ILLEGAL_ADDRESS',
        buffer: 'the first byte past the end of O',
        emulator: { kind: 'OUT_OF_BOUNDS', block: [0, 0, 0], thread: [63, 0, 0] },
      },
    });
    // The control kernel's figures are the same before and after the fault.
    const figures = (outcome: typeof before): unknown =>
      outcome.status === 'done' && {
        ...outcome.value,
        figures: { ...outcome.value.figures, seconds: 0 },
      };
    expect(figures(after)).toEqual(figures(before));
  },
);

test('a worker reports tensors, output and reference of the requested inputs', { timeout: 60_000 }, async () => {
  const told: VerifiedOutput[] = [];
  const request = {
    ...(await verifyRequest('fa_v1_baseline')),
    inputs: [INPUT, { ...INPUT, seed: '2' }],
    tellOutputs: 1,
  };
  const outcome = await worker.request(request, {
    signal,
    onNotice: (notice) => notice.type === 'output' && told.push(notice.output),
  });
  const [{ output, reference, maxAbsError }] = told as [VerifiedOutput];
  const errors = Array.from(new Float16Array(output.slice().buffer), (value, index) =>
    Math.abs(value - reference[index]!),
  );
  expect([outcome.status, told.length, Math.max(...errors)]).toEqual(['done', 1, maxAbsError]);
});

test(
  'an endless launch is stopped at its limit, and its fault says where the threads are',
  { timeout: 120_000 },
  async () => {
    const endless = await verifyRequest('faulty/endless_loop', 500);
    const started = performance.now();
    const outcome = await worker.request(endless, { signal });
    expect(outcome).toMatchObject({
      status: 'fault',
      fault: {
        emulator: {
          kind: 'TIMED_OUT',
          message: expect.stringContaining('did not end within 0.5 s') as string,
          place: expect.stringMatching(/endless_loop\.cu:8$/) as string,
        },
      },
    });
    expect(performance.now() - started).toBeLessThan(8_000);
  },
);

test(
  "an aborted request rejects with the signal's reason, and the next one is served",
  { timeout: 60_000 },
  async () => {
    const endless = await verifyRequest('faulty/endless_loop');
    const controller = new AbortController();
    const running = worker.request(endless, { signal: controller.signal });
    // eslint-disable-next-line flashcore/no-fixed-wait -- no event says that the launch is running
    setTimeout(() => controller.abort(new Error('cancelled by the test')), 1_000);
    await expect(running).rejects.toThrow('cancelled by the test');
    expect((await worker.request(await verifyRequest('fa_v1_baseline'), { signal })).status).toBe('done');
  },
);

test('an invalid request fails, and the next one is served', async () => {
  const { candidate, ...rest } = await verifyRequest('fa_v1_baseline');
  const wrong = { ...rest, candidate: { ...candidate, image: '/nonexistent' } };
  expect(await worker.request(wrong, { signal })).toMatchObject({
    status: 'failed',
    message: expect.stringContaining('ENOENT') as string,
  });
  expect((await worker.request({ ...rest, candidate }, { signal })).status).toBe('done');
});

test(
  'without nvcc the emulator still builds, and a missing entry is found when the module is loaded',
  { timeout: 60_000 },
  async () => {
    const withoutNvcc = new Toolchain();
    withoutNvcc.nvcc = () => undefined;
    const artifacts = new ArtifactStore(join(folder, 'artifacts'));
    const builder = new KernelBuilder({
      toolchain: withoutNvcc,
      cache: new CompileCache(join(folder, 'builds'), artifacts),
      artifacts,
      kernelsFolder,
      emulatorFiles: () => emulatorHeaders(join(repositoryRoot, 'libs/emulator')),
      deviceHeaders: () => deviceHeaders(join(repositoryRoot, 'libs/emulator')),
      standardHeaders: () => [],
      tritonScript: () => '',
      disassemble: () => Promise.resolve({ missing: 'not asked for' }),
      emulation: () => Promise.resolve({ engine: 'fibres', frontEnd: undefined, because: '', nvccProblem: undefined }),
    });
    const { candidate, build } = await buildOf('faulty/missing_entry', builder);
    expect([build.result.succeeded, build.result.entriesMissing, build.findings]).toEqual([
      true,
      'no nvcc on this host',
      [],
    ]);
    const outcome = await worker.request({ type: 'run-once', candidate, input: INPUT }, { signal });
    expect(FindingKind[findingOf(outcome, parseShape('1x1x64x64'))!.kind]).toBe('MISSING_ENTRY');
  },
);
