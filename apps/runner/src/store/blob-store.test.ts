import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { sha256Of } from '@flashcore/shared/kernels';
import { ArtifactStore } from './artifacts.ts';
import { BlobStore } from './blob-store.ts';

const folder = mkdtempSync(join(tmpdir(), 'fc-blobs-'));
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const bytes = Buffer.from('content');
const sha256 = sha256Of(bytes);

test('put() stores bytes under their digest, once', () => {
  const blobs = new BlobStore(folder);
  expect([blobs.put(bytes), blobs.put(bytes)]).toEqual([sha256, sha256]);
  expect(blobs.read(sha256)).toEqual(bytes);
  expect(readdirSync(join(folder, 'incoming'))).toEqual([]);
});

test.for([
  ['flipped', (path: string) => writeFileSync(path, 'kontent')],
  ['cut off', (path: string) => truncateSync(path, 3)],
] as const)('a file whose content was %s is not returned, and can be stored again', ([, damage]) => {
  const artifacts = new ArtifactStore(folder);
  artifacts.put(bytes);
  damage(artifacts.path(sha256));
  expect(() => artifacts.get(sha256)).toThrow(expect.objectContaining({ reason: 'ARTIFACT_NOT_FOUND' }) as Error);
  expect(readdirSync(join(folder, 'quarantine'))).toHaveLength(1);
  artifacts.put(bytes);
  expect(artifacts.get(sha256)).toEqual(bytes);
});

test.for([
  ['a link to a file with the bytes', (path: string, real: string) => symlinkSync(real, path)],
  ['a pipe', (path: string) => execFileSync('mkfifo', [path])],
  ['a folder', (path: string) => mkdirSync(path)],
] as const)('%s in place of a stored file is not read, is set aside, and is replaced by put()', ([, place]) => {
  const blobs = new BlobStore(folder);
  const path = blobs.path(sha256);
  const real = join(folder, 'real');
  writeFileSync(real, bytes);
  mkdirSync(dirname(path), { recursive: true });
  place(path, real);
  expect([blobs.has(sha256), blobs.read(sha256), readdirSync(join(folder, 'quarantine')).length]).toEqual([
    false,
    undefined,
    1,
  ]);
  place(path, real);
  blobs.put(bytes);
  expect([blobs.read(sha256), readFileSync(real)]).toEqual([bytes, bytes]);
});

test("links in place of a store's folders never lead out of the store", () => {
  const [outside, store] = [join(folder, 'outside'), join(folder, 'store')];
  for (const path of [outside, store]) mkdirSync(path, { recursive: true });
  writeFileSync(join(outside, 'key'), 'a private key');
  for (const name of ['incoming', 'quarantine']) symlinkSync(outside, join(store, name));
  const blobs = new BlobStore(store);
  blobs.put(bytes);
  writeFileSync(blobs.path(sha256), 'kontent');
  expect(blobs.read(sha256)).toBeUndefined();
  expect(readdirSync(outside)).toEqual(['key']);
  expect(readdirSync(join(store, 'quarantine'))).toHaveLength(1);
});

test('a text that is not a digest is refused, even if its type says that it is one', () => {
  const blobs = new BlobStore(folder);
  const digest = '../flashcore.db' as typeof sha256;
  for (const use of [() => blobs.path(digest), () => blobs.read(digest), () => blobs.has(digest)])
    expect(use).toThrow('sha256: must be a SHA-256 of 64 lower-case hexadecimal digits, got "../flashcore.db"');
});

test('nothing is left of a file that is not kept, or that a killed runner was writing', () => {
  const blobs = new BlobStore(folder);
  const writer = blobs.openWriter();
  writer.write(bytes);
  expect(blobs.has(sha256)).toBe(false);
  writer.close();
  blobs.openWriter().write(bytes); // Never closed, as if the runner was killed.
  expect(readdirSync(join(folder, 'incoming'))).toHaveLength(1);
  new BlobStore(folder);
  expect(readdirSync(join(folder, 'incoming'))).toEqual([]);
});
