import { fileURLToPath } from 'node:url';
import {
  JobKind,
  JobSchema,
  JobState,
  KernelReferenceSchema,
  ListJobsResponseSchema,
  type Job,
} from '@flashcore/shared/contract';
import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { fakeRunner } from '../testing/fake-runner.ts';
import { SAMPLE_JOB, sampleEvents } from '../testing/sample-job.ts';
import { CommandContext } from './context.ts';
import { championById, plannedRequest, startJob, stopFallbacksOf } from './start-job.ts';
import { UsageError } from '../exit-code.ts';

const BUILD_ID = '4b'.repeat(32);
const SOME_KERNEL = fileURLToPath(new URL('../../../../kernels/flashcore_v6', import.meta.url));

test.each([
  ['flashcore_v6', { case: 'kernelId', value: 'flashcore_v6' }],
  [BUILD_ID, { case: 'buildId', value: BUILD_ID }],
] as const)('--champion %s names a kernel or build that the runner has', async (champion, source) => {
  expect(await championById({ champion })).toEqual(create(KernelReferenceSchema, { source }));
});

test('--champion with a folder is bad usage for commands that upload nothing', async () => {
  await expect(championById({ champion: SOME_KERNEL })).rejects.toThrow(UsageError);
  expect(await championById({})).toBeUndefined();
});

test('--request-id names the request, --restart-interrupted repeats it, and without these options each request is new', () => {
  const requestId = '5f0c1b1e-0000-4000-8000-000000000000';
  const optionsOf = (options: object) =>
    plannedRequest('build', { color: 'never', ...options })(create(KernelReferenceSchema)).request.options!;
  expect(optionsOf({ requestId, restartInterrupted: true })).toMatchObject({ requestId, restartInterrupted: true });
  expect(optionsOf({ requestId }).restartInterrupted).toBe(false);
  expect(optionsOf({}).requestId).not.toBe(optionsOf({}).requestId);
});

test('a command that starts a job first stops a fallback of its kernel, and says so', async () => {
  const running = create(JobSchema, {
    ...{ name: SAMPLE_JOB, kernelId: 'flashcore_v6', label: 'flashcore_v6', kind: JobKind.EXPERIMENT },
    ...{ state: JobState.RUNNING, lastSequence: BigInt(sampleEvents().length - 1) },
  });
  const runner = Object.assign(fakeRunner(), {
    listJobs: () => Promise.resolve(create(ListJobsResponseSchema, { jobs: [running] })),
  });
  let stderr = '';
  const context = new CommandContext(
    { stdin: {}, stdout: { write: () => true }, stderr: { write: (text) => void (stderr += text) }, environment: {} },
    { color: 'never' },
  );
  context.withStartedRunner = (body) => body({ client: runner } as never);
  await startJob('verify', 'flashcore_v6', { color: 'never', detach: true }, context);
  expect([runner.cancelled, runner.started, stderr]).toEqual([
    [SAMPLE_JOB],
    ['flashcore_v6'],
    expect.stringMatching(/^Stopped the fallback of flashcore_v6 \(\w{8}\), whose verdict stands/),
  ]);
});

const EVENTS = sampleEvents();
const FALLBACK = EVENTS.findLastIndex(({ payload }) => payload.case === 'phaseStarted');

/** A runner with the sample job, of which `events` have happened. */
function runnerWith(events: number, more: Partial<Job> = {}) {
  const job = create(JobSchema, {
    name: SAMPLE_JOB,
    kind: JobKind.EXPERIMENT,
    kernelId: 'flashcore_v6',
    label: 'flashcore_v6 USE_WMMA=1',
    state: JobState.RUNNING,
    lastSequence: EVENTS[events - 1]!.sequence,
  });
  const runner = fakeRunner({ events: EVENTS });
  const listJobs = () => Promise.resolve(create(ListJobsResponseSchema, { jobs: [{ ...job, ...more }] }));
  return Object.assign(runner, { listJobs });
}

test('a fallback that decides nothing is cancelled for the next job of its kernel', async () => {
  const runner = runnerWith(FALLBACK + 1);
  expect((await stopFallbacksOf('flashcore_v6', runner)).map(({ name }) => name)).toEqual([SAMPLE_JOB]);
  expect(runner.cancelled).toEqual([SAMPLE_JOB]);
});

test('no other job is cancelled: another kernel, another owner, a variant that still decides', async () => {
  const runners = [
    runnerWith(FALLBACK + 1, { kernelId: 'flashcore_v7' }),
    runnerWith(FALLBACK + 1, { owner: 'ada' }),
    runnerWith(10),
  ];
  for (const runner of runners) expect(await stopFallbacksOf('flashcore_v6', runner)).toEqual([]);
  expect(runners.map(({ cancelled }) => cancelled)).toEqual([[], [], []]);
});
