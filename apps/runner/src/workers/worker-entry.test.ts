import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseManifest, parseShape, planLaunches, resolveVariant } from '@flashcore/shared/kernels';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { DrawRequest } from '../../worker/messages/measuring.ts';
import { BuildTools } from '../build/build-tools.ts';
import { findBox } from '../sandbox/find-box.ts';
import { REPOSITORY_ROOT } from '../testing/test-runner.ts';
import { boxedWorker, gpuNodes, listDevicesOf } from './worker-entry.ts';
import { WorkerProcess } from './worker-process.ts';

test("the driver's device nodes are found by name", () => {
  const folder = mkdtempSync(join(tmpdir(), 'fc-dev-'));
  for (const name of ['nvidia0', 'nvidia1', 'nvidiactl', 'nvidia-uvm', 'nvidia-caps', 'null', 'sda'])
    writeFileSync(join(folder, name), '');
  expect(gpuNodes(folder)).toEqual(
    ['nvidia-caps', 'nvidia-uvm', 'nvidia0', 'nvidia1', 'nvidiactl'].map((name) => join(folder, name)),
  );
  rmSync(folder, { recursive: true });
});

test('a boxed worker that is killed while it starts leaves no process, even during the setup of its box', async ({
  skip,
}) => {
  const box = await findBox('auto');
  if (box.kind === 'none') return skip(box.detail);
  const command = await boxedWorker(box, []);
  for (let round = 0; round < 20; round += 1) {
    const worker = new WorkerProcess(() => undefined, command);
    // eslint-disable-next-line flashcore/no-fixed-wait -- kills at a varying moment of the setup
    await new Promise((resolve) => setTimeout(resolve, round % 5));
    expect(await worker.stop(), `killed after ${round % 5} ms`).toBe(true);
  }
});

test('a boxed worker can also run from its TypeScript sources', async ({ skip, onTestFinished }) => {
  const box = await findBox('auto');
  if (box.kind === 'none') return skip(box.detail);
  vi.stubEnv('FLASHCORE_PROGRAMS', undefined);
  onTestFinished(() => void vi.unstubAllEnvs());
  const { program, args } = await boxedWorker(box, []);
  expect(program).not.toBe(process.execPath);
  expect(args.at(-1)).toMatch(/worker\/main\.ts$/);
});

test('a boxed worker draws the inputs of timed launches of plain attention', async ({ skip, onTestFinished }) => {
  const box = await findBox('auto');
  if (box.kind === 'none') return skip(box.detail);
  const signal = AbortSignal.timeout(300_000);
  const folder = mkdtempSync(join(tmpdir(), 'fc-boxed-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const tools = new BuildTools({
    repositoryRoot: REPOSITORY_ROOT,
    dataDirectory: folder,
    libraryCache: process.env['FLASHCORE_LIBRARY_CACHE'],
    engine: 'fibres',
  });
  const [library, referenceLibrary] = [
    await tools.libraries.emulator({ signal }),
    await tools.libraries.reference({ signal }),
  ];
  const worker = new WorkerProcess(
    () => undefined,
    await boxedWorker(box, [dirname(library), dirname(referenceLibrary)]),
  );
  onTestFinished(() => worker.stop().then(() => undefined));
  const opened = await worker.request({ type: 'open', library, deviceOrdinal: 0, referenceLibrary }, { signal });
  const path = join(REPOSITORY_ROOT, 'kernels/flashcore_v6/kernel.yaml');
  const manifest = parseManifest(readFileSync(path, 'utf8'), path);
  const timed = planLaunches(manifest, resolveVariant(manifest, {}, undefined), parseShape('1x2x64x64'));
  const request: DrawRequest = { type: 'draw', timed, seed: '5eed', trials: [], ownReference: undefined };
  expect([opened.status, await worker.request(request, { signal })]).toEqual(['done', { status: 'done', value: null }]);
});

function brokenLibrary(): string {
  const folder = mkdtempSync(join(tmpdir(), 'fc-lib-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const library = join(folder, 'libcuda.so.1');
  writeFileSync(library, 'no library');
  return library;
}

test("if a GPU's driver does not open in the box, its worker runs without one and reports it", async ({ skip }) => {
  const box = await findBox('auto');
  if (box.kind === 'none') return skip(box.detail);
  const library = brokenLibrary();
  expect((await boxedWorker(box, [], { library, ordinal: 0, folder: dirname(library) })).program).toBe(
    process.execPath,
  );
  expect(box.detail).toMatch(/a worker with .* does not run in the box \(.*\) and runs with the rights of the runner/);
  await expect(
    boxedWorker(await findBox('required'), [], { library, ordinal: 0, folder: dirname(library) }),
  ).rejects.toMatchObject({
    reason: 'DEVICE_UNAVAILABLE',
  });
});

test('the list of devices is empty, with a reason, if the driver does not load or does not answer', () => {
  const library = brokenLibrary();
  expect(listDevicesOf(library)).toEqual({
    devices: [],
    problem: expect.stringMatching(/Failed to load shared library/) as string,
  });
  expect(listDevicesOf(library, 1)).toEqual({ devices: [], problem: 'it did not answer within 0.001 s' });
});
