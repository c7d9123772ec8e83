import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, credentials, status, type ServiceError } from '@grpc/grpc-js';
import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { serviceDefinition } from '@flashcore/shared/client';
import {
  Outcome,
  JobState,
  TimingMode,
  BuildRequestSchema,
  UploadSourcesRequestSchema,
  errorFromStatus,
  type UploadSourcesRequest,
} from '@flashcore/shared/contract';
import { parseShape, sha256Of } from '@flashcore/shared/kernels';
import { PROTOCOL_VERSION } from '../spec/benchmark-protocol.ts';
import { ArtifactStore } from '../store/artifacts.ts';
import { fakePlanner } from '../testing/fake-planner.ts';
import { collect, finished, kernel, startTestRunner, type TestRunner } from '../testing/test-runner.ts';

// Shared by all tests that leave the runner unchanged.
let shared: TestRunner;
beforeAll(async () => {
  shared = await startTestRunner();
});
afterAll(() => shared[Symbol.asyncDispose]());

test('a tolerance profile and a case set may have any name: only the planner knows the names in cases.yaml', async () => {
  await using fixture = await startTestRunner();
  const verify = { tolerance: { profile: 'loose' }, caseSet: 'my_shapes' };
  const events = await collect(fixture.client.start('runExperiment', { ...kernel('ok'), verify }));
  expect(finished(events).outcome).toBe(Outcome.PASSED);
});

test('errors are sent as a status with details of at most 1 KiB, whatever the request contains', async () => {
  const fixture = shared;
  const refusal = await callRaw(
    fixture,
    'Build',
    toBinary(BuildRequestSchema, create(BuildRequestSchema, kernel('x'.repeat(100_000)))),
  );
  expect(refusal.code).toBe(status.INVALID_ARGUMENT);
  expect((refusal.metadata.get('grpc-status-details-bin')[0] as Buffer).byteLength).toBeLessThanOrEqual(1024);
  expect(errorFromStatus(refusal)).toMatchObject({ reason: 'INVALID_REQUEST' });
});

test('an internal fault in a call is INTERNAL with an incident, and no path', async () => {
  const broken = {
    ...fakePlanner(),
    planJob: () => {
      throw new Error('secret /home/somebody');
    },
  };
  await using fixture = await startTestRunner({ createPlanner: () => broken });
  const error = await collect(fixture.client.start('build', kernel('ok'))).catch(
    (thrown: unknown) => thrown as { reason: string; message: string; metadata: object },
  );
  expect(error).toMatchObject({ reason: 'INTERNAL', metadata: { incident: expect.any(String) as string } });
  expect(JSON.stringify(error)).not.toContain('secret');
});

test('WatchJob refuses unknown jobs and numbers that the log has not reached', async () => {
  const fixture = shared;
  const [{ job = '' } = {}] = await collect(fixture.client.start('build', kernel('ok')));
  await expect(collect(fixture.client.watch('jobs/none'))).rejects.toMatchObject({ reason: 'JOB_NOT_FOUND' });
  await expect(collect(fixture.client.watch(job, { afterSequence: 99 }))).rejects.toMatchObject({
    reason: 'INVALID_REQUEST',
  });
  await expect(collect(fixture.client.watch(job, { afterSequence: -1 }))).rejects.toMatchObject({
    reason: 'INVALID_REQUEST',
  });
});

test('ListJobs returns pages, newest first, and refuses a page token of another list', async () => {
  await using fixture = await startTestRunner();
  const names: string[] = [];
  for (let count = 0; count < 5; count += 1)
    names.unshift((await collect(fixture.client.start('build', kernel(`flood_${count % 2}`))))[0]!.job);
  const first = await fixture.client.listJobs({ pageSize: 2 });
  const second = await fixture.client.listJobs({ pageSize: 2, pageToken: first.nextPageToken });
  const third = await fixture.client.listJobs({ pageSize: 2, pageToken: second.nextPageToken });
  expect([first, second, third].map(({ jobs }) => jobs.map(({ name }) => name))).toEqual([
    names.slice(0, 2),
    names.slice(2, 4),
    names.slice(4),
  ]);
  expect(third.nextPageToken).toBe('');
  expect((await fixture.client.listJobs({ kernelId: 'flood_1' })).jobs).toHaveLength(2);
  expect((await fixture.client.listJobs({ state: JobState.RUNNING })).jobs).toEqual([]);
  await expect(
    fixture.client.listJobs({ pageSize: 2, pageToken: first.nextPageToken, kernelId: 'ok' }),
  ).rejects.toMatchObject({ violations: [{ field: 'page_token' }] });
  await expect(fixture.client.listJobs({ pageSize: 1001, pageToken: 'x' })).rejects.toMatchObject({
    violations: [{ field: 'page_size' }, { field: 'page_token' }],
  });
});

describe('sources', () => {
  test('are uploaded once and make a folder; the same folder needs no second upload', async () => {
    await using fixture = await startTestRunner();
    const folder = mkdtempSync(join(fixture.dataDirectory, 'kernel-'));
    writeFileSync(
      join(folder, 'kernel.yaml'),
      'id: mine\ntitle: t\nlesson: l\nsource: mine.cu\nmin_arch: sm_80\nmath: { inputs: fp16, accumulate: fp32 }\nlaunches: [{ entry: mine, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q] }]\n',
    );
    writeFileSync(join(folder, 'mine.cu'), `// ${'x'.repeat(200_000)}`);
    const reference = await fixture.client.uploadFolder(folder);
    const files = reference.source.case === 'tree' ? reference.source.value.files : [];
    expect(files.map(({ path }) => path)).toEqual(['kernel.yaml', 'mine.cu']);
    expect(await fixture.client.findMissingSources({ files })).toMatchObject({ missingSha256: [] });
  });

  test('with a wrong digest, or cut off, are refused and not kept', async () => {
    await using fixture = await startTestRunner();
    const data = Buffer.from('content');
    const sha256 = sha256Of(data);
    const piece = (init: Partial<UploadSourcesRequest>): UploadSourcesRequest =>
      create(UploadSourcesRequestSchema, { sha256, data, finish: true, ...init });
    expect(await upload(fixture, [piece({ data: Buffer.from('other') })])).toMatchObject({ reason: 'DIGEST_MISMATCH' });
    expect(await upload(fixture, [piece({ finish: false })])).toMatchObject({ violations: [{ field: 'finish' }] });
    expect(await upload(fixture, [piece({ finish: false }), piece({ sha256: 'b'.repeat(64) })])).toMatchObject({
      violations: [{ field: 'sha256' }],
    });
    expect(await upload(fixture, [piece({ data: Buffer.alloc(65 * 1024) })])).toMatchObject({
      violations: [{ field: 'data' }],
    });
    expect(await fixture.client.findMissingSources({ files: [{ path: 'a', sha256, sizeBytes: 7n }] })).toMatchObject({
      missingSha256: [sha256],
    });
    expect(await upload(fixture, [piece({})])).toMatchObject({ files: 1, sizeBytes: 7n });
    expect(await fixture.client.findMissingSources({ files: [{ path: 'a', sha256, sizeBytes: 7n }] })).toMatchObject({
      missingSha256: [],
    });
  });

  test('of more than 8 MiB are refused during the upload', async () => {
    await using fixture = await startTestRunner();
    const data = Buffer.alloc(64 * 1024);
    const pieces = Array.from({ length: 200 }, () =>
      create(UploadSourcesRequestSchema, { sha256: 'c'.repeat(64), data }),
    );
    expect(await upload(fixture, pieces)).toMatchObject({ violations: [{ field: 'data' }] });
  });
});

test('ReadArtifact returns the bytes from an offset, and refuses unknown digests and too large offsets', async () => {
  let artifacts: ArtifactStore | undefined;
  await using fixture = await startTestRunner({
    createPlanner: (options) => {
      artifacts = options.artifacts;
      return fakePlanner();
    },
  });
  const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, index) => index % 251));
  const sha256 = artifacts!.put(bytes);
  expect((await fixture.client.readArtifact(sha256)).equals(bytes)).toBe(true);
  await expect(fixture.client.readArtifact('0'.repeat(64))).rejects.toMatchObject({ reason: 'ARTIFACT_NOT_FOUND' });
  await expect(fixture.client.readArtifact('x')).rejects.toMatchObject({ reason: 'INVALID_REQUEST' });
});

test('GetKernel names the nearest kernels for an unknown one', async () => {
  const fixture = shared;
  await expect(fixture.client.getKernel({ kernelId: 'fa_v1_basline' })).rejects.toMatchObject({
    reason: 'KERNEL_NOT_FOUND',
    metadata: { nearest: expect.stringContaining('fa_v1_baseline') as string },
  });
});

test.each([
  [{}, 'kernel_id: must have 1 to 128 letters'],
  [{ kernelId: 'ok', buildId: '0'.repeat(64) }, 'build_id: must be empty where kernel_id is set'],
  [{ buildId: 'x' }, 'build_id: must be a BuildResult.build_id'],
])('GetKernel of %j is refused', async (request, text) => {
  await expect(shared.client.getKernel(request)).rejects.toMatchObject({
    reason: 'INVALID_REQUEST',
    message: expect.stringContaining(text) as string,
  });
});

test('GetKernel of a build that this runner lacks is refused with BUILD_NOT_FOUND', async () => {
  await expect(shared.client.getKernel({ buildId: '0'.repeat(64) })).rejects.toMatchObject({
    reason: 'BUILD_NOT_FOUND',
  });
});

test.each(['listChampions', 'listExperiments'] as const)(
  '%s of an unknown kernel names the nearest kernels; a kernel that ran is known even without a folder',
  async (list) => {
    const { client } = shared;
    await expect(client[list]({ kernelId: 'fa_v1_basline' })).rejects.toMatchObject({
      reason: 'KERNEL_NOT_FOUND',
      metadata: { nearest: expect.stringContaining('fa_v1_baseline') as string },
    });
    await expect(client[list]({ kernelId: 'fa_v1_baseline' })).resolves.toBeDefined();
    await collect(client.start('runExperiment', kernel('champion_9')));
    await expect(client[list]({ kernelId: 'champion_9' })).resolves.toBeDefined();
  },
);

test('GetLeaderboard says why it is empty', async () => {
  const fixture = shared;
  expect(await fixture.client.getLeaderboard({})).toMatchObject({
    entries: [],
    emptyReason: 'No valid result on Fake GPU for 2x8x512x64, hot, yet',
    place: { deviceName: 'Fake GPU', mode: TimingMode.HOT, protocol: PROTOCOL_VERSION, results: 0 },
    baselineKernel: 'fa_v1_baseline',
  });
});

test("GetLeaderboard returns the requested place: an id becomes a device's name; an invalid mode fails", async () => {
  const asked = { shape: parseShape('1x8x512x64'), mode: TimingMode.COLD, protocol: 'flashcore-protocol 1' };
  const { place, emptyReason } = await shared.client.getLeaderboard({ ...asked, deviceName: 'gpu0' });
  expect(place).toMatchObject({ ...asked, deviceName: 'Fake GPU' });
  expect(emptyReason).toBe('No valid result on Fake GPU for 1x8x512x64, cold, yet');
  await expect(shared.client.getLeaderboard({ mode: 7 as TimingMode })).rejects.toMatchObject({
    reason: 'INVALID_REQUEST',
  });
});

/** Sends bytes to a streaming RPC and returns its error. */
function callRaw({ runner }: TestRunner, rpc: string, bytes: Buffer | Uint8Array): Promise<ServiceError> {
  const client = new Client(runner.address, credentials.createInsecure());
  const { promise, resolve } = Promise.withResolvers<ServiceError>();
  const call = client.makeServerStreamRequest(
    `/flashcore.runner.v1.KernelRunnerService/${rpc}`,
    (value: Uint8Array) => Buffer.from(value),
    (value) => value,
    bytes,
  );
  call.on('data', () => undefined).on('error', (error) => resolve(error as ServiceError));
  return promise.finally(() => client.close());
}

/** Uploads pieces; returns the answer or the error. */
function upload({ runner }: TestRunner, pieces: UploadSourcesRequest[]): Promise<unknown> {
  const client = new Client(runner.address, credentials.createInsecure());
  const { path, requestSerialize, responseDeserialize } = serviceDefinition.uploadSources;
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const call = client.makeClientStreamRequest(path, requestSerialize, responseDeserialize, (error, response) =>
    resolve(error ? errorFromStatus(error) : response),
  );
  call.on('error', () => undefined); // The callback gets the error.
  for (const piece of pieces) call.write(piece);
  call.end();
  return promise.finally(() => client.close());
}
