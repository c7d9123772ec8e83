import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import { afterEach, expect, test, vi } from 'vitest';
import {
  BenchmarkRequestSchema,
  DeviceSchema,
  Outcome,
  TimingMode,
  type BenchmarkRequest,
  type JobEvent,
} from '@flashcore/shared/contract';
import { parseCases, parseShape } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { readFileSync } from 'node:fs';
import { SdpaBenchmark } from '../sdpa/sdpa-benchmark.ts';
import { planSdpa } from '../spec/sdpa-spec.ts';
import { PROTOCOL_VERSION } from '../spec/benchmark-protocol.ts';
import { HistoryStore } from '../store/history.ts';
import { Leaderboard } from '../store/leaderboard.ts';
import { databaseOf, storeJob } from '../store/testing/made-experiments.ts';
import { runSdpaJob } from './sdpa-job.ts';

const pythonTest = test.skipIf(missing('python3'));

const FAKE = fileURLToPath(new URL('../sdpa/fake-sdpa.py', import.meta.url));
const cases = parseCases(
  readFileSync(new URL('../../../../kernels/cases.yaml', import.meta.url), 'utf8'),
  'cases.yaml',
);
const L4 = create(DeviceSchema, { deviceId: 'gpu0', name: 'NVIDIA L4', arch: 'sm_89' });
const EMULATOR = create(DeviceSchema, { deviceId: 'emulator', name: 'flashcore CPU emulator', simulated: true });

const open: SdpaBenchmark[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(open.splice(0).map((each) => each.close()));
});

const specOf = (settings: BenchmarkRequest['settings'], device = L4) =>
  planSdpa(create(BenchmarkRequestSchema, { settings }), { devices: [device], cases, load: () => 0 });

async function measure(asked: readonly string[], fault = '') {
  vi.stubEnv('PYTHON_FAKE_SDPA', fault);
  const sdpa = new SdpaBenchmark({ script: FAKE, ordinal: 0, folder: '/none' });
  open.push(sdpa);
  const { settings } = create(BenchmarkRequestSchema, {
    settings: { sdpaBackends: [...asked], protocol: { maxSeconds: 0.2 }, shapeSet: 'success' },
  });
  const events: JobEvent['payload'][] = [];
  const outcome = await runSdpaJob({
    job: { emit: (payload) => void events.push(payload), signal: new AbortController().signal },
    spec: specOf(settings),
    sdpa,
    conditions: () => Promise.resolve({ throttleReasons: [] }),
    runner: { version: '1', buildId: 'b', rates: new Map() },
  });
  return { outcome, events };
}

pythonTest(
  'a job for SDPA without a kernel measures every shape of the set in both modes, with a kernel’s figures in events and leaderboard',
  async () => {
    const { outcome, events } = await measure(['sdpa']);
    expect(Outcome[outcome.outcome]).toBe('PASSED');
    expect(outcome.summary).toMatch(
      /^2x8x512x64 cold: sdpa\/cudnn 11\.00 us; 2x8x512x64 hot: sdpa\/cudnn 11\.00 us; 1x8/,
    );
    const { sdpaBenchmarks, variants, provenance } = outcome.result;
    expect([
      variants,
      provenance?.tools.map(({ name, version }) => `${name} ${version}`),
      provenance?.protocol,
    ]).toEqual([[], ['PyTorch 9.9.9, cuDNN 8.7.6'], PROTOCOL_VERSION]);
    expect(sdpaBenchmarks.map(({ mode, backends }) => [TimingMode[mode], backends.map(({ name }) => name)])).toEqual(
      ['COLD', 'HOT', 'COLD', 'HOT'].map((mode) => [mode, ['sdpa/cudnn', 'sdpa/flash']]),
    );
    const [fastest] = sdpaBenchmarks[1]!.backends;
    // 4 B H S^2 D flops in 11 us.
    expect(fastest!.tflops).toBeCloseTo((4 * 2 * 8 * 512 * 512 * 64) / 11e-6 / 1e12, 6);
    expect(fastest).toMatchObject({ latency: { p50Us: 11, p90Us: 12 }, speedup: 0 });
    expect(fastest!.rooflinePercent).toBeGreaterThan(0);
    expect(fastest!.latency!.samples).toBeGreaterThanOrEqual(100);
    expect(sdpaBenchmarks[0]!.missing).toBe('sdpa/efficient: no head dimension of 7; sdpa/math: out of memory');
    const told = events.map((payload) => payload.case);
    expect(told[0]).toBe('phaseStarted');
    expect(told.filter((name) => name === 'sdpaBenchmark')).toHaveLength(4);
    expect(told).toContain('benchmarkProgress');

    const database = databaseOf();
    const jobId = storeJob(database, { name: 'jobs/sdpa', kernelId: '' });
    new HistoryStore(database).recordSdpa({ jobId, jobName: 'jobs/sdpa', endMs: 5, result: outcome.result });
    const rows = new Leaderboard(database, { protocol: PROTOCOL_VERSION, sourcesOf: () => undefined }).at({
      deviceName: 'NVIDIA L4',
      problem: 'attention',
      shape: parseShape('1x8x512x64'),
      dtype: 'fp16',
      mode: TimingMode.COLD,
      protocol: PROTOCOL_VERSION,
    });
    expect(rows.map(({ label, sdpaVersion, job, latency }) => [label, sdpaVersion, job, latency?.p50Us])).toEqual([
      ['sdpa/cudnn', 'PyTorch 9.9.9, cuDNN 8.7.6', 'jobs/sdpa', 11],
      ['sdpa/flash', 'PyTorch 9.9.9, cuDNN 8.7.6', 'jobs/sdpa', 21],
    ]);
  },
);

pythonTest('a job measures only the backends that it names', async () => {
  const { outcome } = await measure(['sdpa/flash']);
  expect(outcome.result.sdpaBenchmarks.flatMap(({ backends }) => backends.map(({ name }) => name))).toEqual(
    Array.from({ length: 4 }, () => 'sdpa/flash'),
  );
});

pythonTest.each([
  ['no-torch', /^SDPA was not measured on gpu0: no PyTorch on this host .*pip install torch/],
  ['crash', /^SDPA was not measured on gpu0: PyTorch's process ended with exit status 9/],
])('a job that could measure nothing says why: %s', async (fault, message) => {
  await expect(measure(['sdpa'], fault)).rejects.toMatchObject({
    reason: 'PROFILER_UNAVAILABLE',
    message: expect.stringMatching(message) as string,
  });
});

test("the emulator and an unknown backend are refused before a job exists, and SDPA's canonical shape equals the kernels'", () => {
  const settings = create(BenchmarkRequestSchema, { settings: { sdpaBackends: ['sdpa'] } }).settings;
  expect(specOf(settings)).toMatchObject({ shapes: [{ batch: 2, sequenceLength: 512 }], modes: ['cold', 'hot'] });
  expect(() => specOf(settings, EMULATOR)).toThrow(
    /options\.device_id: must be a GPU to measure SDPA without a kernel: PyTorch can't run on flashcore CPU emulator/,
  );
  expect(() => specOf({ ...settings!, sdpaBackends: ['flsh'] })).toThrow(/did you mean "flash"/);
  for (const shapes of [{ shapeSet: 'models' }, { shapes: [parseShape('1x8x64x64,Hkv=2')] }])
    expect(() => specOf({ ...settings!, ...shapes })).toThrow(
      /must be plain attention to measure SDPA without a kernel, got /,
    );
});
