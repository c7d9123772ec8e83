import { create } from '@bufbuild/protobuf';
import { ListJobsResponseSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { replayRunner } from '../record/replay-runner.ts';
import { sampleEvents } from '../testing/sample-job.ts';
import { lateRunner } from './late-runner.ts';
import type { RunnerPort } from './runner-port.ts';

const EVENTS = sampleEvents();

test('calls to a runner that is not connected yet are answered once it is connected', async () => {
  const opening = Promise.withResolvers<{ client: RunnerPort }>();
  const runner = lateRunner(opening.promise);
  const jobs = runner.listJobs({});
  const watched = (async () => {
    const sequences: bigint[] = [];
    for await (const { sequence } of runner.watch(EVENTS[0]!.job)) sequences.push(sequence);
    return sequences;
  })();
  const client = replayRunner(EVENTS, { speed: 0 });
  opening.resolve({ client });
  expect(create(ListJobsResponseSchema, await jobs)).toEqual(await client.listJobs({}));
  expect(await watched).toEqual(EVENTS.map(({ sequence }) => sequence));
});

test('if connecting fails, every call fails with that error', async () => {
  const runner = lateRunner(Promise.reject(new Error('no runner')));
  await expect(runner.getHost({})).rejects.toThrow('no runner');
  await expect(runner.watch('jobs/1').next()).rejects.toThrow('no runner');
});
