import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import { ArtifactKind, ArtifactSchema } from '@flashcore/shared/contract';
import { sha256Of } from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parsePlace } from '../state/source-place.ts';
import { sourceFile } from './source-file.ts';

const KERNELS = fileURLToPath(new URL('../../../../kernels', import.meta.url));
const refuse = (): Promise<Buffer> => Promise.reject(new Error('not asked for'));
const target = { kernelId: 'flashcore_v6', folders: [], line: 87, column: 0 };

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
  const options = { kernelsDirectory: KERNELS, readArtifact: refuse };
  expect(await sourceFile({ ...target, folders: [path.join(folder, 'mine')], file: 'k.cu' }, options)).toEqual({
    file: path.join(folder, 'mine/k.cu'),
    isCopy: false,
  });
  expect(
    await sourceFile({ ...target, folders: [path.join(KERNELS, 'flashcore_v7')], file: 'flashcore_v6.cu' }, options),
  ).toEqual({ file: path.join(KERNELS, 'flashcore_v6/flashcore_v6.cu'), isCopy: false });
});

test.each(['faulty/nan_output', 'cheating/small_values'])('of a runner on this machine also %s', async (place) => {
  const kernelId = path.basename(place);
  expect(
    await sourceFile(
      { kernelId, folders: [], line: 0, column: 0 },
      { kernelsDirectory: KERNELS, readArtifact: refuse },
    ),
  ).toEqual({ file: path.join(KERNELS, place, `${kernelId}.cu`), isCopy: false });
});

test('of two folders with the kernel, the one with the compiled source is opened', async () => {
  const [mine, copy] = ['older', 'newer'].map((name) => path.join(folder, name)) as [string, string];
  for (const [each, text] of [
    [mine, '// 1'],
    [copy, '// 2'],
  ] as const) {
    mkdirSync(each);
    writeFileSync(path.join(each, 'kernel.yaml'), readFileSync(path.join(KERNELS, 'flashcore_v6/kernel.yaml')));
    writeFileSync(path.join(each, 'flashcore_v6.cu'), text);
  }
  const compiled = create(ArtifactSchema, { kind: ArtifactKind.SOURCE, sha256: sha256Of(Buffer.from('// 2')) });
  expect(await sourceFile({ ...target, folders: [mine, copy], compiled }, { readArtifact: refuse })).toEqual({
    file: path.join(copy, 'flashcore_v6.cu'),
    isCopy: false,
  });
});

test('a path that leads out of the folder is none', async () => {
  expect(
    await sourceFile({ ...target, folders: [path.join(folder, 'mine')], file: '../secret' }, { readArtifact: refuse }),
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
