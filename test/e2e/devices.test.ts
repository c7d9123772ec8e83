/**
 * Several devices on one host, each with a worker and a queue. The emulator presents two devices, and the runner tells
 * them apart in the same way as the devices of a GPU host.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RunnerClient } from '@flashcore/shared/client';
import { JobState, Outcome, type Job } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { Home, ROOT } from '../support/home.ts';
import { waitFor, PATIENT_MS } from '@flashcore/shared/testing';

const home = new Home({ FLASHCORE_EMULATOR_DEVICES: '2' });
let address: string;
let client: RunnerClient;

beforeAll(async () => {
  ({ address } = await home.startDaemon());
  client = await RunnerClient.connect({ address, timeoutMs: PATIENT_MS });
});
afterAll(async () => {
  client.close();
  await home[Symbol.asyncDispose]();
});

/** Starts a job without waiting for its end. Returns the job's name. */
function start(...args: string[]): string {
  const { stdout, stderr, exitCode } = home.faTui([...args, '--runner', address, '--detach']);
  expect(exitCode, stderr).toBe(0);
  return stdout.trim();
}

/** Starts a job on the first device that does not end before it is cancelled, even on a fast machine. */
const startEndless = (): string => start('verify', 'fa_v1_baseline', '--seeds', '100');

const ended = (name: string): Promise<Job> =>
  waitFor(
    `${name} to end`,
    async () => {
      const { job } = await client.getJob({ name });
      return job!.state === JobState.ENDED ? job : undefined;
    },
    60_000,
  );

const seconds = ({ startTime, endTime }: Job): [number, number] =>
  [startTime, endTime].map((time) => Number(time!.seconds) + time!.nanos / 1e9) as [number, number];

test('two devices run jobs at the same time, unaffected by a fault of the other, while a third job waits for its device', async () => {
  // Runs on the first device until it is cancelled, while kernels fault on the second device.
  const long = startEndless();
  const faulty = start('verify', 'out_of_bounds', '--device', 'emulator:1', '--seeds', '1', '--shape', '1x1x64x64');
  const good = start('verify', 'fa_v1_baseline', '--device', 'emulator1', '--seeds', '1', '--shape', '1x1x64x64');
  const waits = start('verify', 'fa_v1_baseline', '--device', 'emulator', '--seeds', '1', '--shape', '1x1x64x64');
  const onSecond = await Promise.all([faulty, good].map(ended));
  expect(JobState[(await client.getJob({ name: waits })).job!.state]).toBe('QUEUED');
  await client.cancelJob({ name: long });
  const jobs = await Promise.all([long, ...onSecond.map(({ name }) => name), waits].map(ended));
  expect(jobs.map(({ deviceId, outcome }) => [deviceId, Outcome[outcome]])).toEqual([
    ['emulator', 'CANCELLED'],
    ['emulator1', 'CRASHED'],
    ['emulator1', 'PASSED'],
    ['emulator', 'PASSED'],
  ]);
  const [first, fault, next, last] = jobs.map(seconds) as [
    [number, number],
    [number, number],
    [number, number],
    [number, number],
  ];
  expect(next[0]).toBeGreaterThanOrEqual(fault[1]);
  expect(last[0], 'jobs never share a device').toBeGreaterThanOrEqual(first[1]);
}, 120_000);

test('"any" selects the device with the fewest jobs', async () => {
  const busy = startEndless();
  const any = await ended(start('verify', 'fa_v1_baseline', '--device', 'any', '--seeds', '1', '--shape', '1x1x64x64'));
  expect([any.deviceId, Outcome[any.outcome]]).toEqual(['emulator1', 'PASSED']);
  await client.cancelJob({ name: busy });
  await ended(busy);
}, 60_000);

test('the host lists its devices, and an unknown device name is a usage error that lists the known names', () => {
  const answer = JSON.parse(home.faTui(['host', '--json', '--runner', address]).stdout) as {
    host: { devices: { deviceId: string }[] };
  };
  expect(
    answer.host.devices.filter(({ deviceId }) => deviceId.startsWith('emulator')).map(({ deviceId }) => deviceId),
  ).toEqual(['emulator', 'emulator1']);
  const { exitCode, stderr } = home.faTui(['verify', 'fa_v1_baseline', '--device', 'emulator7', '--runner', address]);
  expect([exitCode, stderr]).toEqual([2, expect.stringMatching(/emulator, emulator1.*"any"/) as string]);
});

test('launch options that the device does not support have no effect, and the job reports that', () => {
  const { response, exitCode, stderr } = home.runJson([
    'verify',
    join(ROOT, 'test/fixtures/launch_options'),
    '--runner',
    address,
    '--seeds',
    '1',
    '--shape',
    '1x1x128x64c',
  ]);
  expect(stderr).toContain('launch_options: cluster [2, 1, 1] has no effect: emulator has no clusters');
  expect(stderr).toContain('launch_options: l2_persist [K, V] has no effect: emulator has no L2 that can be set aside');
  expect([
    exitCode,
    ...response.result!.variants[0]!.verify!.cases.map(({ shape, mismatches }) => [formatShape(shape!), mismatches]),
  ]).toEqual([0, ['1x1x128x64c', 0n]]);
}, 60_000);
