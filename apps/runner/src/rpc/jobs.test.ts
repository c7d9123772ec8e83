import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { create } from '@bufbuild/protobuf';
import { JobState, Outcome, JobResultSchema, LogLineSchema, type JobEvent } from '@flashcore/shared/contract';
import { until } from '@flashcore/shared/testing';
import type { JobContext } from '../jobs/job-context.ts';
import { fakePlanner } from '../testing/fake-planner.ts';
import { collect, finished, firstEvent, kernel, startTestRunner, type TestRunner } from '../testing/test-runner.ts';

// Shared by all tests that leave the runner idle.
let fixture: TestRunner;
beforeAll(async () => {
  fixture = await startTestRunner();
});
afterAll(() => fixture[Symbol.asyncDispose]());

describe('events', () => {
  test('are numbered from 1 without gaps: created, started, those of the body, finished', async () => {
    const events = await collect(fixture.client.start('build', kernel('flood_3')));
    expect(events.map(({ sequence, payload }) => [Number(sequence), payload.case])).toEqual([
      [1, 'created'],
      [2, 'started'],
      [3, 'logLine'],
      [4, 'logLine'],
      [5, 'logLine'],
      [6, 'finished'],
    ]);
    expect(finished(events)).toMatchObject({ outcome: Outcome.PASSED, summary: 'passed' });
  });

  test('after any number can be watched again, during the job and after its end', async () => {
    const whole = await collect(fixture.client.start('build', kernel('flood_2000')));
    const job = whole[0]!.job;
    for (const after of [0, 1, 2, 255, 256, 257, 2001, 2002]) {
      const rest = await collect(fixture.client.watch(job, { afterSequence: after }));
      expect(rest).toEqual(whole.slice(after));
    }
  });

  test('go to several watchers at once, each from its own number', async () => {
    const job = (await firstEvent(fixture.client.start('build', kernel('flood_20000')))).job;
    const watched = await Promise.all(
      [0, 0, 1].map((after) => collect(fixture.client.watch(job, { afterSequence: after }))),
    );
    expect(watched.map((events) => events.length)).toEqual([20003, 20003, 20002]);
    expect(watched[1]).toEqual(watched[0]);
  });

  test('carry no control characters and at most 4096 characters a line', async () => {
    const bodies = {
      loud: ({ emit }: JobContext) => {
        for (const text of ['\u001b[31mred\u001b[0m\u0007\ttab', 'x'.repeat(5000)])
          emit({ case: 'logLine', value: create(LogLineSchema, { source: 'kernel', text }) });
        return Promise.resolve({ outcome: Outcome.PASSED, summary: '', result: create(JobResultSchema) });
      },
    };
    await using fixture = await startTestRunner({ createPlanner: () => fakePlanner({ bodies }) });
    const events = await collect(fixture.client.start('build', kernel('loud')));
    const texts = events.flatMap(({ payload }) => (payload.case === 'logLine' ? [payload.value.text] : []));
    expect(texts[0]).toBe('red\ttab');
    expect(texts[1]).toHaveLength(4096);
  });
});

describe('request_id', () => {
  test('repeated with the same body, even at once, gives the same job', async () => {
    const before = (await fixture.client.listJobs()).jobs.length;
    const request = { ...kernel('flood_50'), options: { requestId: randomUUID() } };
    const streams = await Promise.all(Array.from({ length: 8 }, () => collect(fixture.client.start('build', request))));
    expect(new Set(streams.map((events) => events[0]!.job)).size).toBe(1);
    expect(new Set(streams.map((events) => events.length))).toEqual(new Set([53]));
    expect((await fixture.client.listJobs()).jobs).toHaveLength(before + 1);
  });

  test('a request_id reused with another body or method is refused with the job that it belongs to', async () => {
    const requestId = randomUUID();
    const events = await collect(fixture.client.start('build', { ...kernel('ok'), options: { requestId } }));
    const refusal = { reason: 'REQUEST_ID_REUSED', metadata: { request_id: requestId, job: events[0]!.job } };
    await expect(
      collect(fixture.client.start('build', { ...kernel('flood_1'), options: { requestId } })),
    ).rejects.toMatchObject(refusal);
    await expect(
      collect(fixture.client.start('verify', { ...kernel('ok'), options: { requestId } })),
    ).rejects.toMatchObject(refusal);
  });
});

describe('labels', () => {
  const search = { search: 'wide-tiles', thought: 'two stages "hide" the copy, $.x' };
  const labelled = (trial: string) => ({ ...kernel('ok'), options: { labels: { ...search, trial } } });

  test('are in the job and its first event, and lists match jobs that have all requested labels', async () => {
    const [first] = await collect(fixture.client.start('runExperiment', labelled('1')));
    const [second] = await collect(fixture.client.start('runExperiment', labelled('2')));
    await collect(fixture.client.start('runExperiment', kernel('ok')));
    expect(first!.payload).toMatchObject({ value: { job: { labels: { ...search, trial: '1' } } } });
    const jobs = async (labels: Record<string, string>) =>
      (await fixture.client.listJobs({ labels })).jobs.map(({ name }) => name);
    expect(await jobs(search)).toEqual([second!.job, first!.job]);
    expect(await jobs({ trial: '1', search: 'wide-tiles' })).toEqual([first!.job]);
    expect(await jobs({ trial: '3' })).toEqual([]);
    const { experiments, nextPageToken } = await fixture.client.listExperiments({ labels: search, pageSize: 1 });
    expect(experiments.map(({ job }) => job!.name)).toEqual([second!.job]);
    const next = await fixture.client.listExperiments({ labels: search, pageSize: 1, pageToken: nextPageToken });
    expect(next.experiments.map(({ job }) => job!.labels)).toEqual([{ ...search, trial: '1' }]);
    await expect(fixture.client.listExperiments({ pageToken: nextPageToken })).rejects.toThrow(/page_token: must be/);
  });

  test('with names or values out of bounds are refused', async () => {
    const labels = { 'A b': '', 'x"]': '', long: 'x'.repeat(1025), bell: '\u0007' };
    const refused = collect(fixture.client.start('build', { ...kernel('ok'), options: { labels } }));
    await expect(refused).rejects.toMatchObject({ reason: 'INVALID_REQUEST' });
    await expect(refused).rejects.toThrow(
      /labels: must have names .*"A b".*"x\\"]".*labels\.long: must have at most 1024 .*labels\.bell: must have no control/s,
    );
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`label${index}`, '']));
    await expect(fixture.client.listJobs({ labels: many })).rejects.toThrow(/labels: must have at most 16 elements/);
  });
});

describe('cancel', () => {
  test('ends a running job as CANCELLED, frees the device, and may be repeated', async () => {
    const { name, done } = await begin(fixture.client.start('build', kernel('hang')));
    await until(async () => (await fixture.client.getJob({ name })).job?.state === JobState.RUNNING);
    await fixture.client.cancelJob({ name });
    await fixture.client.cancelJob({ name });
    expect(finished(await done)).toMatchObject({
      outcome: Outcome.CANCELLED,
      summary: 'Cancelled while it was running',
    });
    const { job } = await fixture.client.cancelJob({ name });
    expect(job).toMatchObject({ state: JobState.ENDED, outcome: Outcome.CANCELLED });
    expect(finished(await collect(fixture.client.start('build', kernel('ok')))).outcome).toBe(Outcome.PASSED);
  });

  test('ends a queued job, which then never starts', async () => {
    const running = await begin(fixture.client.start('build', kernel('hang')));
    const queued = await begin(fixture.client.start('build', kernel('ok')));
    expect((await fixture.client.getJob({ name: queued.name })).job).toMatchObject({
      state: JobState.QUEUED,
      queuePosition: 1,
    });
    await fixture.client.cancelJob({ name: queued.name });
    expect((await queued.done)[0]?.payload).toMatchObject({ case: 'created', value: { job: { queuePosition: 1 } } });
    expect((await queued.done).map(({ payload }) => payload.case)).toEqual(['created', 'finished']);
    await fixture.client.cancelJob({ name: running.name });
    await running.done;
  });

  test('of an unknown job is JOB_NOT_FOUND', async () => {
    await expect(fixture.client.cancelJob({ name: 'jobs/none' })).rejects.toMatchObject({ reason: 'JOB_NOT_FOUND' });
  });
});

describe('limits', () => {
  test('max_run_seconds ends a job as TIMED_OUT', async () => {
    const events = await collect(
      fixture.client.start('build', { ...kernel('hang'), options: { maxRunSeconds: 0.05 } }),
    );
    expect(finished(events)).toMatchObject({
      outcome: Outcome.TIMED_OUT,
      summary: "Stopped after 0.05 s of running, the job's limit (max_run_seconds)",
    });
  });

  test('max_queue_seconds ends a job whose device does not become free, separately from the run limit', async () => {
    const running = await begin(
      fixture.client.start('build', { ...kernel('sleep_300'), options: { maxQueueSeconds: 0.05 } }),
    );
    const events = await collect(
      fixture.client.start('build', { ...kernel('ok'), options: { maxQueueSeconds: 0.05 } }),
    );
    expect(finished(events)).toMatchObject({ outcome: Outcome.ERROR, error: { reason: 'DEVICE_UNAVAILABLE' } });
    expect(finished(await running.done).outcome).toBe(Outcome.PASSED);
  });

  test('a full queue refuses with QUEUE_FULL and tells when to retry', async () => {
    await using fixture = await startTestRunner({ maxQueued: 1 });
    const running = await begin(fixture.client.start('build', kernel('hang')));
    const queued = await begin(fixture.client.start('build', kernel('ok')));
    await expect(collect(fixture.client.start('build', kernel('ok')))).rejects.toMatchObject({
      reason: 'QUEUE_FULL',
      retryAfterSeconds: 5,
    });
    await fixture.client.cancelJob({ name: running.name });
    expect(finished(await queued.done).outcome).toBe(Outcome.PASSED);
  });
});

describe('ends', () => {
  test('a body that throws a FlashcoreError ends as ERROR with its reason', async () => {
    expect(finished(await collect(fixture.client.start('build', kernel('error'))))).toMatchObject({
      outcome: Outcome.ERROR,
      error: { reason: 'COMPILER_MISSING', message: 'Install nvcc' },
    });
  });

  test('an internal fault ends as INTERNAL and shows clients no path and no stack', async () => {
    const end = finished(await collect(fixture.client.start('build', kernel('bug'))));
    expect(end).toMatchObject({ outcome: Outcome.ERROR, error: { reason: 'INTERNAL' } });
    expect(JSON.stringify([end.summary, end.error])).not.toContain('secret');
  });

  test('a job continues after its client has left, and its result can be found later', async () => {
    const { job: name } = await firstEvent(fixture.client.start('build', kernel('flood_5000')));
    await until(async () => (await fixture.client.getJob({ name })).job?.state === JobState.ENDED);
    expect(await fixture.client.getJob({ name })).toMatchObject({
      job: { outcome: Outcome.PASSED, lastSequence: 5003n },
      result: {},
    });
  });
});

/** Starts reading a stream; returns the job's name as soon as it is known. */
async function begin(stream: AsyncIterable<JobEvent>): Promise<{ name: string; done: Promise<JobEvent[]> }> {
  const named = Promise.withResolvers<string>();
  const read = async (): Promise<JobEvent[]> => {
    const events: JobEvent[] = [];
    for await (const event of stream) {
      named.resolve(event.job);
      events.push(event);
    }
    return events;
  };
  const done = read();
  done.catch(named.reject);
  return { name: await named.promise, done };
}
