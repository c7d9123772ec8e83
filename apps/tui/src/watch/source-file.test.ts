import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import { ArtifactKind, ArtifactSchema } from '@flashcore/shared/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parsePlace } from '../state/source-place.ts';
import { sourceFile } from './source-file.ts';

const KERNELS = new URL('../../../../kernels', import.meta.url).pathname;
const refuse = (): Promise<Buffer> => Promise.reject(new Error('not asked for'));
const target = { kernelId: 'flashcore_v6', line: 87, column: 0 };

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'fa-source-'));
  mkdirSync(path.join(folder, 'mine'));
  writeFileSync(path.join(folder, 'secret'), '');
  writeFileSync(path.join(folder, 'mine', 'kernel.yaml'), 'id: [');
  writeFileSync(path.join(folder, 'mine', 'k.cu'), '');
});
afterAll(() => rmSync(folder, { recursive: true }));

test('the watched folder comes first, also while its manifest is broken; a folder of another kernel is passed over', async () => {
  const options = { watching: path.join(folder, 'mine'), kernelsDirectory: KERNELS, readArtifact: refuse };
  expect(await sourceFile({ ...target, file: 'k.cu' }, options)).toEqual({
    file: path.join(folder, 'mine/k.cu'),
    isCopy: false,
  });
  expect(
    await sourceFile(
      { ...target, file: 'flashcore_v6.cu' },
      { ...options, watching: path.join(KERNELS, 'flashcore_v7') },
    ),
  ).toEqual({ file: path.join(KERNELS, 'flashcore_v6/flashcore_v6.cu'), isCopy: false });
});

test.each(['faulty/nan_output', 'cheating/small_values'])('of a runner on this machine also %s', async (place) => {
  const kernelId = path.basename(place);
  expect(
    await sourceFile({ kernelId, line: 0, column: 0 }, { kernelsDirectory: KERNELS, readArtifact: refuse }),
  ).toEqual({ file: path.join(KERNELS, place, `${kernelId}.cu`), isCopy: false });
});

test('a path that leads out of the folder is none', async () => {
  expect(
    await sourceFile({ ...target, file: '../secret' }, { watching: path.join(folder, 'mine'), readArtifact: refuse }),
  ).toBeUndefined();
});

test('of a runner elsewhere a copy of what was compiled is opened, which nobody takes for the source', async () => {
  const compiled = create(ArtifactSchema, { kind: ArtifactKind.SOURCE, fileName: '../k.cu', sha256: 'abc' });
  const found = await sourceFile(
    { ...target, compiled },
    { readArtifact: (sha256) => Promise.resolve(Buffer.from(`of ${sha256}`)) },
  );
  expect({ ...found, text: readFileSync(found!.file, 'utf8'), mode: statSync(found!.file).mode & 0o777 }).toEqual({
    file: expect.stringMatching(/fa-tui-read-only-copy-\w+\/k\.cu$/) as string,
    isCopy: true,
    text: 'of abc',
    mode: 0o400,
  });
  rmSync(path.dirname(found!.file), { recursive: true });
});

test.each([
  ['flashcore_v6.cu:87', { file: 'flashcore_v6.cu', line: 87, column: 0 }],
  ['at k.cu:9:3 (barrier 2)', { file: 'k.cu', line: 9, column: 3 }],
  ['nowhere', undefined],
])('the place in "%s"', (text, place) => {
  expect(parsePlace(text)).toEqual(place);
});
