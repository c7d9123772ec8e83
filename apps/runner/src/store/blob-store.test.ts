import { mkdtempSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { sha256Of } from '@flashcore/shared/kernels';
import { ArtifactStore } from './artifacts.ts';
import { BlobStore } from './blob-store.ts';

const folder = mkdtempSync(join(tmpdir(), 'fc-blobs-'));
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const bytes = Buffer.from('content');
const sha256 = sha256Of(bytes);

test('put() keeps bytes under their digest, once', () => {
  const blobs = new BlobStore(folder);
  expect([blobs.put(bytes), blobs.put(bytes)]).toEqual([sha256, sha256]);
  expect(blobs.read(sha256)).toEqual(bytes);
  expect(readdirSync(join(folder, 'incoming'))).toEqual([]);
});

test.for([
  ['flipped', (path: string) => writeFileSync(path, 'kontent')],
  ['cut off', (path: string) => truncateSync(path, 3)],
] as const)('a file whose content was %s is not given, and can be put again', ([, damage]) => {
  const artifacts = new ArtifactStore(folder);
  artifacts.put(bytes);
  damage(artifacts.path(sha256));
  expect(() => artifacts.get(sha256)).toThrow(expect.objectContaining({ reason: 'ARTIFACT_NOT_FOUND' }) as Error);
  artifacts.put(bytes);
  expect(artifacts.get(sha256)).toEqual(bytes);
});

test('a file that is not kept leaves nothing, nor does one that a killed runner was writing', () => {
  const blobs = new BlobStore(folder);
  const writer = blobs.openWriter();
  writer.write(bytes);
  expect(blobs.has(sha256)).toBe(false);
  writer.close();
  blobs.openWriter().write(bytes); // Never closed: as if killed.
  expect(readdirSync(join(folder, 'incoming'))).toHaveLength(1);
  new BlobStore(folder);
  expect(readdirSync(join(folder, 'incoming'))).toEqual([]);
});
