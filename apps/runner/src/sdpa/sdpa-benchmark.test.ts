import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test, vi } from 'vitest';
import { attentionCase, parseShape } from '@flashcore/shared/kernels';
import { SDPA_BACKENDS } from '@flashcore/shared/rivals';
import { missing } from '@flashcore/shared/testing';
import { temporaryFolder } from '../testing/test-runner.ts';
import { SdpaBenchmark, sdpaCase } from './sdpa-benchmark.ts';
import { SdpaShape } from './sdpa-shape.ts';
import { SdpaError, SdpaProcess } from './sdpa-process.ts';

const pythonTest = test.skipIf(missing('python3'));

const FAKE = fileURLToPath(new URL('fake-sdpa.py', import.meta.url));
const REAL = fileURLToPath(new URL('../../../../tools/sdpa.py', import.meta.url));
const FAKE_TORCH = fileURLToPath(new URL('fake-torch', import.meta.url));
const KIND = attentionCase(parseShape('1x2x64x64'), 'fp16');
const open: { close(): Promise<void> }[] = [];

afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(open.splice(0).map((each) => each.close()));
});

async function openShape(
  fault = '',
  { signal = new AbortController().signal, python = 'python3' } = {},
): Promise<SdpaShape | { missing: string }> {
  vi.stubEnv('PYTHON_FAKE_SDPA', fault);
  const sdpa = new SdpaBenchmark({ script: FAKE, ordinal: 0, folder: '/none', python });
  open.push(sdpa);
  return sdpa.openShape(KIND, {
    modes: ['hot'],
    signal,
    onSamples: () => undefined,
  });
}

pythonTest('turns of every backend become results, fastest first, with the speedup of the candidate', async () => {
  const shape = (await openShape()) as SdpaShape;
  for (let turn = 0; turn < 3; ++turn) await shape.turn('hot');
  const results = shape.results('hot', [5, 5.5, 6]);
  expect(
    results.map(({ name, version, speedup, latency }) => ({
      name,
      version,
      speedup,
      samples: latency!.samples,
      p50Us: latency!.p50Us,
    })),
  ).toEqual([
    { name: 'sdpa/cudnn', version: 'PyTorch 9.9.9, cuDNN 8.7.6', speedup: 2, samples: 90, p50Us: 11 },
    { name: 'sdpa/flash', version: 'PyTorch 9.9.9, cuDNN 8.7.6', speedup: 21 / 5.5, samples: 90, p50Us: 21 },
  ]);
  expect(results[0]!.speedupLow).toBeLessThanOrEqual(2);
  expect(results[0]!.speedupHigh).toBeGreaterThanOrEqual(2);
  expect(shape.missing('hot')).toBe('sdpa/efficient: no head dimension of 7; sdpa/math: out of memory');
});

test('without PyTorch nothing is measured, and the reason says how to install it', async () => {
  expect(await openShape('no-torch')).toEqual({
    missing: expect.stringMatching(/^no PyTorch on this host .*pip install torch.*FLASHCORE_PYTHON/) as string,
  });
});

test('without Python nothing is measured, and the reason names the missing program', async () => {
  expect(await openShape('', { python: '/no/such/python' })).toEqual({
    missing: expect.stringMatching(/^no PyTorch on this host \(\/no\/such\/python can't be started/) as string,
  });
});

test('missing software is not looked for again at once', async () => {
  using folder = temporaryFolder();
  const python = join(folder.path, 'python');
  const sdpa = new SdpaBenchmark({ script: FAKE, ordinal: 0, folder: '/none', python });
  open.push(sdpa);
  const options = {
    modes: ['hot'] as const,
    signal: new AbortController().signal,
    onSamples: () => undefined,
  };
  const first = await sdpa.openShape(KIND, options);
  writeFileSync(python, '#!/bin/sh\nexec python3 "$@"\n', { mode: 0o755 });
  expect([first, await sdpa.compare({ kind: KIND, path: '/no/file' }, options.signal)]).toEqual([
    { missing: expect.stringContaining(python) as string },
    first,
  ]);
});

pythonTest('SDPA is not measured if its process ends in a turn, and the next shape gets a new process', async () => {
  vi.stubEnv('PYTHON_FAKE_SDPA', 'crash');
  const sdpa = new SdpaBenchmark({ script: FAKE, ordinal: 0, folder: '/none' });
  open.push(sdpa);
  const options = {
    modes: ['hot'] as const,
    signal: new AbortController().signal,
    onSamples: () => undefined,
  };
  const shape = (await sdpa.openShape(KIND, options)) as SdpaShape;
  await shape.turn('hot');
  await shape.turn('hot');
  expect(shape.missing('hot')).toMatch(/^PyTorch's process ended with exit status 9/);
  expect(shape.results('hot', [1])).toEqual([]);
  vi.stubEnv('PYTHON_FAKE_SDPA', '');
  expect(await sdpa.openShape(KIND, options)).toBeInstanceOf(SdpaShape);
});

pythonTest('a cancelled job does not wait for a turn: the process is killed', async () => {
  const controller = new AbortController();
  const shape = (await openShape('hang', { signal: controller.signal })) as SdpaShape;
  const turn = shape.turn('hot');
  setImmediate(() => controller.abort(new Error('cancelled')));
  await expect(turn).rejects.toThrow('cancelled');
});

pythonTest('a request past its limit is killed', async () => {
  vi.stubEnv('PYTHON_FAKE_SDPA', 'hang');
  const process = new SdpaProcess({ python: 'python3', script: FAKE });
  open.push({ close: () => process.stop() });
  await process.request('open', {}, { limitMs: 20_000 });
  await expect(process.request('round', { backend: 'flash' }, { limitMs: 200 })).rejects.toMatchObject({
    name: 'SdpaError',
    reason: 'TIME_LIMIT',
  });
  expect(process.usable).toBe(false);
  await expect(process.request('open', {}, { limitMs: 200 })).rejects.toBeInstanceOf(SdpaError);
});

pythonTest("the real tool answers requests that it can't carry out, and goes on", () => {
  const { stdout } = spawnSync('python3', [REAL], {
    input: '{"id": 1, "op": "dance"}\nno json\n{"id": 3, "op": "round"}\n',
    encoding: 'utf8',
  });
  const answers = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { id: number | null; ok: boolean; reason: string });
  expect(answers.map(({ id, ok, reason }) => [id, ok, reason])).toEqual([
    [1, false, 'BAD_REQUEST'],
    [null, false, 'BAD_REQUEST'],
    [3, false, 'BAD_REQUEST'],
  ]);
});

/** The real tool's answers to `prepare` for each backend, on a fake PyTorch. */
function prepareWith(faults: string): Record<string, unknown>[] {
  const parameters = { case: sdpaCase(KIND, { drawn: false }), modes: ['hot'], launchesPerSample: 0 };
  const requests = [
    { id: 0, op: 'open', ordinal: 0, folder: '/none' },
    ...SDPA_BACKENDS.map((rival, index) => ({ id: index + 1, op: 'prepare', rival, ...parameters })),
  ];
  const { stdout } = spawnSync('python3', [REAL], {
    input: requests.map((each) => `${JSON.stringify(each)}\n`).join(''),
    encoding: 'utf8',
    env: { ...process.env, PYTHONPATH: FAKE_TORCH, FAKE_TORCH: faults },
  });
  return stdout
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

pythonTest('a backend without a kernel, a plan or a capture does not stop the others', () => {
  const backends = prepareWith(
    'no_kernel; CUDNN_ATTENTION in call: cuDNN Frontend error: No valid execution plans built; EFFICIENT_ATTENTION in capture: operation not permitted when stream is capturing',
  );
  expect(backends.map(({ ok, name, reason }) => [ok, name, reason])).toEqual([
    [true, 'flash', 'head dimension 7 is no multiple of 8'],
    [true, 'cudnn', 'cuDNN Frontend error: No valid execution plans built'],
    [true, 'efficient', 'operation not permitted when stream is capturing'],
    [true, 'math', ''],
  ]);
});

pythonTest("a lost device is not reported as a backend's failure", () => {
  expect(
    prepareWith('lost; CUDNN_ATTENTION in call: CUDA error: an illegal memory access was encountered')[1],
  ).toMatchObject({
    ok: false,
    reason: 'FAILED',
    message: 'RuntimeError: CUDA error: an illegal memory access was encountered',
  });
});

pythonTest('a cancelled job does not wait until PyTorch is loaded', async () => {
  const controller = new AbortController();
  const opened = openShape('slow-open', { signal: controller.signal });
  // eslint-disable-next-line flashcore/no-fixed-wait -- waits until Python is running
  setTimeout(() => controller.abort(new Error('cancelled')), 100);
  const started = performance.now();
  await expect(opened).rejects.toThrow('cancelled');
  expect(performance.now() - started).toBeLessThan(2_000);
});
