/**
 * A device's worker after faults, with fake worker processes: a canary runs first, and a device whose canary fails is
 * quarantined.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { until } from '@flashcore/shared/testing';
import { DeviceNotServing, DeviceWorker } from './device-worker.ts';

const folder = mkdtempSync(join(tmpdir(), 'fc-worker-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Answers like the worker and logs its requests; the content of the file `health` says whether canaries succeed. */
const STAND_IN = `
  const { appendFileSync, readFileSync } = require('node:fs');
  const [, , log, health] = process.argv;
  appendFileSync(log + '.pids', process.pid + '\\n');
  process.on('message', (request) => {
    appendFileSync(log, request.type + '\\n');
    const print = () => process.stdout.write((request.image ? 'one\\n\\nopen line' : '') + '\\n' + request.outputEnd + '\\n') && process.stderr.write('\\n' + request.outputEnd + '\\n');
    if (request.image === 'late') {
      process.send({ type: 'done', value: null });
      setTimeout(print, 50);
      return;
    }
    if (request.image === 'talks') {
      process.stderr.write('a secret of one client\\n');
      process.send({ type: 'done', value: null });
      setTimeout(() => { process.stdout.write('late, too\\n'); print(); }, 1200);
      return;
    }
    if (request.image === 'dies') {
      setTimeout(() => process.stderr.write('own words\\n', () => process.exit(9)), 500);
      return;
    }
    print();
    const failed = { type: 'failed', message: 'the canary kernel wrote 0 at 0, not 7' };
    if (request.type === 'open') process.send({ type: 'done', value: { name: 'stand-in' } });
    else if (request.type === 'canary') process.send(readFileSync(health, 'utf8') === 'sick' ? failed : { type: 'done', value: null });
    else if (request.image === 'odd') process.send({ type: 'failed', message: 'no such image' });
    else if (request.image === 'hang') return;
    else if (request.image === 'good') process.send({ type: 'done', value: null });
    else process.send({ type: 'fault', fault: { call: 'cuLaunchKernel', arguments: '', name: 'CUDA_ERROR_ILLEGAL_ADDRESS', description: '' } }, () => process.exit(3));
  });
  process.on('disconnect', () => process.exit(0));
`;

const NODE = [process.execPath];
/**
 * The started process is not the worker, and killing its group does not reach the worker, which ends later, like a
 * worker that hangs in the driver.
 */
const OUT_OF_REACH = ['/bin/sh', '-c', '/usr/bin/setsid "$@" & wait', 'sh', process.execPath];

function openDevice(
  name: string,
  [starter, ...before]: string[] = NODE,
): { device: DeviceWorker; asked: () => string[]; setHealth: (health: 'well' | 'sick') => void; pids: () => number[] } {
  const [program, log, health] = ['js', 'log', 'health'].map((kind) => join(folder, `${name}.${kind}`)) as [
    string,
    string,
    string,
  ];
  writeFileSync(program.replace(/\.js$/, '.cjs'), STAND_IN);
  for (const [path, text] of [
    [log, ''],
    [health, 'well'],
  ] as const)
    writeFileSync(path, text);
  const device = new DeviceWorker({
    deviceId: name,
    open: () => Promise.resolve({ library: '', deviceOrdinal: 0, referenceLibrary: '' }),
    command: () =>
      Promise.resolve({ program: starter!, args: [...before, program.replace(/\.js$/, '.cjs'), log, health], env: {} }),
    canary: () => Promise.resolve('canary.cubin'),
  });
  return {
    device,
    asked: () => readFileSync(log, 'utf8').trim().split('\n'),
    setHealth: (text) => writeFileSync(health, text),
    pids: () => readFileSync(`${log}.pids`, 'utf8').trim().split('\n').map(Number),
  };
}

const signal = new AbortController().signal;
const run = (
  device: DeviceWorker,
  kernel: 'good' | 'bad' | 'odd' | 'late' | 'talks' | 'dies',
  onOutput?: (line: string) => void,
) => device.request({ type: 'run-once', image: kernel } as never, { signal, onOutput });

test('everything a kernel printed belongs to its request, even if the answer arrives first', async () => {
  const { device } = openDevice('prints');
  for (const kernel of ['good', 'late', 'bad'] as const) {
    const printed: string[] = [];
    await run(device, kernel, (line) => printed.push(line));
    expect([kernel, printed]).toEqual([kernel, ['one', '', 'open line']]);
  }
  await device.close();
});

test('after a fault a new process opens the device, and a canary runs before the next request', async () => {
  const { device, asked } = openDevice('canary');
  expect(await run(device, 'good')).toMatchObject({ status: 'done' });
  expect(await run(device, 'bad')).toMatchObject({ status: 'fault' });
  expect(await run(device, 'good')).toMatchObject({ status: 'done' });
  expect(await run(device, 'good')).toMatchObject({ status: 'done' });
  expect(asked()).toEqual(['open', 'run-once', 'run-once', 'open', 'canary', 'run-once', 'run-once']);
  await device.close();
});

test("a process that ran one owner's code serves no other owner: a new process does, without a canary", async () => {
  const { device, asked, pids } = openDevice('owners');
  for (const owner of ['ada', 'ada', 'bob', 'ada']) {
    device.serve(owner);
    expect(await run(device, 'good')).toMatchObject({ status: 'done' });
  }
  expect(asked()).toEqual(['open', 'run-once', 'run-once', 'open', 'run-once', 'open', 'run-once']);
  expect(new Set(pids()).size).toBe(3);
  await device.close();
});

test('after an abandoned start the next owner gets one process, whose output is passed on', async () => {
  const { device, asked } = openDevice('given-up');
  device.serve('ada');
  const gone = AbortSignal.abort(new Error('cancelled'));
  await expect(device.request({ type: 'run-once', image: 'good' } as never, { signal: gone })).rejects.toThrow();
  device.serve('bob');
  await run(device, 'good');
  await run(device, 'good');
  expect(asked()).toEqual(['open', 'canary', 'run-once', 'run-once']);
  await device.close();
});

test('a device whose canary fails three times is quarantined; it serves again once a canary succeeds', async () => {
  const { device, asked, setHealth } = openDevice('quarantine');
  await run(device, 'bad');
  setHealth('sick');
  await expect(run(device, 'good')).rejects.toThrow(DeviceNotServing);
  expect(device.quarantineReason).toBe(
    'the canary kernel did not run after a fault: the canary kernel wrote 0 at 0, not 7',
  );
  expect(asked().slice(2)).toEqual(['open', 'canary', 'open', 'canary', 'open', 'canary']);
  setHealth('well');
  expect(await run(device, 'good')).toMatchObject({ status: 'done' });
  expect(device.quarantineReason).toBe(undefined);
  await device.close();
});

test('a request that fails internally leaves no process behind, and the next request needs no canary', async () => {
  const { device, asked } = openDevice('failed');
  expect(await run(device, 'odd')).toEqual({ status: 'failed', message: 'no such image' });
  expect(await run(device, 'good')).toMatchObject({ status: 'done' });
  expect(asked()).toEqual(['open', 'run-once', 'open', 'run-once']);
  await device.close();
});

test(
  'until SIGKILL has ended the first process, the device is quarantined and no second process opens it',
  { timeout: 20_000 },
  async () => {
    const { device, asked, pids } = openDevice('survivor', OUT_OF_REACH);
    const controller = new AbortController();
    const hanging = device.request({ type: 'run-once', image: 'hang' } as never, { signal: controller.signal });
    await until(() => asked().at(-1) === 'run-once');
    controller.abort(new Error('cancelled'));
    await expect(hanging).rejects.toThrow('cancelled');
    await expect(run(device, 'good')).rejects.toThrow(
      /^Device survivor does not serve: its former worker \(process \d+\) was killed and does not end: it may hold the device still$/,
    );
    expect([device.quarantineReason !== undefined, asked()]).toEqual([true, ['open', 'run-once']]);
    const next = run(device, 'good');
    // eslint-disable-next-line flashcore/no-fixed-wait -- nothing should happen meanwhile
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(pids()).toHaveLength(1);
    process.kill(pids()[0]!, 'SIGKILL');
    expect(await next).toMatchObject({ status: 'done' });
    expect([device.quarantineReason, asked().slice(2)]).toEqual([undefined, ['open', 'canary', 'run-once']]);
    process.kill(pids()[1]!, 'SIGKILL');
    await device.close();
  },
);

test("what one client's kernel printed, early or late, never gets into another client's output", async () => {
  const { device } = openDevice('talks');
  const told: string[] = [];
  expect(await run(device, 'talks', (line) => told.push(`a: ${line}`))).toMatchObject({ status: 'done' });
  const other = await run(device, 'dies', (line) => told.push(`b: ${line}`));
  expect(other).toMatchObject({ status: 'crashed', exitCode: 9, lastWords: 'own words' });
  expect(told).toEqual([]);
  await device.close();
});
