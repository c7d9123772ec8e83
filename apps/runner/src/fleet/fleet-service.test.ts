import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { status, type handleUnaryCall, type ServiceError } from '@grpc/grpc-js';
import { expect, test, vi } from 'vitest';
import { errorFromStatus } from '@flashcore/shared/contract';
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
import type { PilotPool } from './pilot-pool.ts';

const digestOf = (data: Uint8Array): string => createHash('sha256').update(data).digest('hex');

const reasonOf = (error: ServiceError): string => `${error.code} ${errorFromStatus(error).reason}`;

function fixture() {
  const folder = temporaryFolder();
  const artifacts = new ArtifactStore(join(folder.path, 'artifacts'));
  const handlers = fleetHandlers({
    pool: {} as PilotPool,
    sources: new SourceStore(join(folder.path, 'sources')),
    artifacts,
    logger: createLogger('silent'),
    onCall: () => undefined,
    synced: () => Promise.resolve(),
  });
  /** Whether it is kept now, or the error's code. */
  const store = (sha256: string, data = new Uint8Array()): Promise<boolean | string> =>
    new Promise((resolve) => {
      const call = { request: create(StoreArtifactRequestSchema, { sha256, data }), getPeer: () => 'a pilot' };
      const handler = handlers['storeArtifact'] as handleUnaryCall<StoreArtifactRequest, StoreArtifactResponse>;
      handler(call as never, (error, response) => resolve(error ? reasonOf(error as ServiceError) : response!.kept));
    });
  return { artifacts, store, [Symbol.dispose]: () => folder[Symbol.dispose]() };
}

test('a file is kept under the digest that it has, and asked for before it is sent', async () => {
  using fleet = fixture();
  const data = Buffer.from('what a job made');
  const sha256 = digestOf(data);
  expect([await fleet.store(sha256), await fleet.store(sha256, data), await fleet.store(sha256)]).toEqual([
    false,
    true,
    true,
  ]);
});

test('a file that is not what its digest says is refused, and nothing is kept', async () => {
  using fleet = fixture();
  const wanted = digestOf(Buffer.from('what a job made'));
  const forged = Buffer.from('something else');
  expect(await fleet.store(wanted, forged)).toBe(`${status.INVALID_ARGUMENT} DIGEST_MISMATCH`);
  expect(await fleet.store('../../etc/passwd', forged)).toBe(`${status.INVALID_ARGUMENT} DIGEST_MISMATCH`);
  expect([fleet.artifacts.has(wanted), fleet.artifacts.has(digestOf(forged))]).toEqual([false, false]);
});

test('on a full disk a pilot is told so, and may ask again', async () => {
  using fleet = fixture();
  vi.spyOn(fleet.artifacts, 'put').mockImplementation(() => {
    throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
  });
  const data = Buffer.from('what a job made');
  expect(await fleet.store(digestOf(data), data)).toBe(`${status.RESOURCE_EXHAUSTED} DISK_FULL`);
});
