import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { Metadata, status, type handleUnaryCall, type ServiceError } from '@grpc/grpc-js';
import { ALL_TESTS } from '@flashcore/shared/testing';
import { expect, test, vi } from 'vitest';
import { errorFromStatus, sha256Of as digestOf } from '@flashcore/shared/contract';
import {
  StoreArtifactRequestSchema,
  type StoreArtifactRequest,
  type StoreArtifactResponse,
} from '@flashcore/shared/fleet';
import { createLogger } from '../log.ts';
import { ArtifactStore } from '../store/artifacts.ts';
import { SourceStore } from '../store/sources.ts';
import { temporaryFolder } from '../testing/test-runner.ts';
import { fleetHandlers } from './fleet-service.ts';
import { PilotWork } from './pilot-work.ts';

const reasonOf = (error: ServiceError): string => `${error.code} ${errorFromStatus(error).reason}`;

function fixture() {
  const folder = temporaryFolder();
  const artifacts = new ArtifactStore(join(folder.path, 'artifacts'));
  const sources = new SourceStore(join(folder.path, 'sources'));
  const work = new PilotWork({ number: 1, job: 'jobs/1', heard: 0 }, { nowMs: () => 0, note: () => undefined });
  const handlers = fleetHandlers({
    pool: {
      workOf: () => work,
      register: () => {
        throw new Error('no pilot registers here');
      },
    },
    sources,
    artifacts,
    logger: createLogger('silent'),
    onCall: () => undefined,
    synced: () => Promise.resolve(),
  });
  /** Reads a file for the pilot: its bytes, or the error's reason. */
  const read = (method: 'readSource' | 'readBuild', sha256: string): Promise<string> =>
    new Promise((resolve) => {
      const call = { request: { sha256 }, getPeer: () => 'a pilot', metadata: new Metadata() };
      const handler = handlers[method] as handleUnaryCall<{ sha256: string }, { data: Uint8Array }>;
      handler(call as never, (error, response) =>
        resolve(error ? reasonOf(error as ServiceError) : Buffer.from(response!.data).toString()),
      );
    });
  /** Stores a file for the pilot. Returns whether the file is stored now, or the error's reason. */
  const store = (sha256: string, data = new Uint8Array()): Promise<boolean | string> =>
    new Promise((resolve) => {
      const call = {
        request: create(StoreArtifactRequestSchema, { sha256, data }),
        getPeer: () => 'a pilot',
        metadata: new Metadata(),
      };
      const handler = handlers['storeArtifact'] as handleUnaryCall<StoreArtifactRequest, StoreArtifactResponse>;
      handler(call as never, (error, response) => resolve(error ? reasonOf(error as ServiceError) : response!.kept));
    });
  return { artifacts, sources, work, store, read, [Symbol.dispose]: () => folder[Symbol.dispose]() };
}

test('a file is stored under its digest, and a pilot can first ask whether it is stored already', async () => {
  using fleet = fixture();
  const data = Buffer.from('what a job made');
  const sha256 = digestOf(data);
  expect([await fleet.store(sha256), await fleet.store(sha256, data), await fleet.store(sha256)]).toEqual([
    false,
    true,
    true,
  ]);
});

test('a file that does not match its digest is refused, and nothing is stored', async () => {
  using fleet = fixture();
  const wanted = digestOf(Buffer.from('what a job made'));
  const forged = Buffer.from('something else');
  expect(await fleet.store(wanted, forged)).toBe(`${status.INVALID_ARGUMENT} DIGEST_MISMATCH`);
  expect(await fleet.store('../../etc/passwd', forged)).toBe(`${status.INVALID_ARGUMENT} INVALID_REQUEST`);
  expect([fleet.artifacts.has(wanted), fleet.artifacts.has(digestOf(forged))]).toEqual([false, false]);
});

test('a full disk is reported to the pilot as an error that it may retry', async () => {
  using fleet = fixture();
  vi.spyOn(fleet.artifacts, 'put').mockImplementation(() => {
    throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
  });
  const data = Buffer.from('what a job made');
  expect(await fleet.store(digestOf(data), data)).toBe(`${status.RESOURCE_EXHAUSTED} DISK_FULL`);
});

test("a pilot can read its own job's files and no others", async () => {
  using fleet = fixture();
  const keep = (text: string): string => {
    const writer = fleet.sources.openUpload();
    writer.write(Buffer.from(text));
    const sha256 = writer.digest();
    writer.keep(sha256);
    expect(fleet.artifacts.put(Buffer.from(text))).toBe(sha256);
    return sha256;
  };
  const [own, other] = [keep('its own'), keep("another client's")];
  expect(await fleet.read('readSource', own)).toBe(`${status.UNAVAILABLE} STORE_UNAVAILABLE`);
  const file = { sha256: own } as never;
  fleet.work.assigned({ files: [file], compilations: [{ files: [file] } as never] });
  for (const method of ['readSource', 'readBuild'] as const)
    expect([await fleet.read(method, own), await fleet.read(method, other)]).toEqual([
      'its own',
      `${status.PERMISSION_DENIED} PERMISSION_DENIED`,
    ]);
});

if (ALL_TESTS)
  test('the bytes that a pilot stores for a job are limited', async () => {
    using fleet = fixture();
    const megabytes = (fill: number) => Buffer.alloc(50 * 1024 ** 2, fill);
    const answers: (boolean | string)[] = [];
    for (let fill = 0; fill < 6; fill += 1) answers.push(await fleet.store(digestOf(megabytes(fill)), megabytes(fill)));
    expect(answers).toEqual([...[true, true, true, true, true], `${status.PERMISSION_DENIED} PERMISSION_DENIED`]);
    // A file that is already stored is not counted again.
    expect(await fleet.store(digestOf(megabytes(0)), megabytes(0))).toBe(true);
  });
