/** A device's worker after faults, on stand-ins for worker processes: a canary comes first, and a device whose canary does not sing is quarantined. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { DeviceNotServing, DeviceWorker } from './device-worker.ts';

const folder = mkdtempSync(join(tmpdir(), 'fc-worker-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Answers as the worker does, and notes what it was asked; `health` is a file that says whether canaries run. */
const STAND_IN = `
  const { appendFileSync, readFileSync } = require('node:fs');
  const [, , log, health] = process.argv;
  process.on('message', (request) => {
    appendFileSync(log, request.type + '\\n');
    const failed = { type: 'failed', message: 'the canary kernel wrote 0 at 0, not 7' };
    if (request.type === 'open') process.send({ type: 'done', value: { name: 'stand-in' } });
    else if (request.type === 'canary') process.send(readFileSync(health, 'utf8') === 'sick' ? failed : { type: 'done', value: null });
    else if (request.image === 'good') process.send({ type: 'done', value: null });
    else process.send({ type: 'fault', fault: { call: 'cuLaunchKernel', arguments: '', name: 'CUDA_ERROR_ILLEGAL_ADDRESS', description: '' } }, () => process.exit(3));
  });
  process.on('disconnect', () => process.exit(0));
`;

function openDevice(name: string): { device: DeviceWorker; asked: () => string[]; setHealth: (health: 'well' | 'sick') => void } {
  const [program, log, health] = ['js', 'log', 'health'].map((kind) => join(folder, `${name}.${kind}`)) as [string, string, string];
  writeFileSync(program.replace(/\.js$/, '.cjs'), STAND_IN);
  for (const [path, text] of [[log, ''], [health, 'well']] as const) writeFileSync(path, text);
  const device = new DeviceWorker({
    deviceId: name,
    open: () => Promise.resolve({ library: '', deviceOrdinal: 0, referenceLibrary: '', nvmlLibrary: '', clockStampImage: '' }),
    command: () => Promise.resolve({ program: process.execPath, args: [program.replace(/\.js$/, '.cjs'), log, health], env: {} }),
    canary: () => Promise.resolve('canary.cubin'),
  });
  return { device, asked: () => readFileSync(log, 'utf8').trim().split('\n'), setHealth: (text) => writeFileSync(health, text) };
}

const signal = new AbortController().signal;
const run = (device: DeviceWorker, kernel: 'good' | 'bad') => device.request({ type: 'run-once', image: kernel } as never, { signal });

test('after a fault a new process opens the device, and a canary runs before the next request', async () => {
  const { device, asked } = openDevice('canary');
  expect(await run(device, 'good')).toMatchObject({ status: 'done' });
  expect(await run(device, 'bad')).toMatchObject({ status: 'fault' });
  expect(await run(device, 'good')).toMatchObject({ status: 'done' });
  expect(await run(device, 'good')).toMatchObject({ status: 'done' });
  expect(asked()).toEqual(['open', 'run-once', 'run-once', 'open', 'canary', 'run-once', 'run-once']);
  await device.close();
});

test('a device whose canary fails three times is quarantined and says why; it serves again once a canary runs', async () => {
  const { device, asked, setHealth } = openDevice('quarantine');
  await run(device, 'bad');
  setHealth('sick');
  await expect(run(device, 'good')).rejects.toThrow(DeviceNotServing);
  expect(device.quarantineReason).toBe('the canary kernel did not run after a fault: the canary kernel wrote 0 at 0, not 7');
  expect(asked().slice(2)).toEqual(['open', 'canary', 'open', 'canary', 'open', 'canary']);
  setHealth('well');
  expect(await run(device, 'good')).toMatchObject({ status: 'done' });
  expect(device.quarantineReason).toBe('');
  await device.close();
});
