import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import { ArtifactKind, ArtifactSchema } from '@flashcore/shared/contract';
import { sha256Of } from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parsePlace } from '../state/source-place.ts';
import { compiledCopy, localSource } from './source-file.ts';

const KERNELS = fileURLToPath(new URL('../../../../kernels', import.meta.url));
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

test('the watched folder comes first, even with a broken manifest; the folder of another kernel is skipped', async () => {
  expect(await localSource({ ...target, folders: [path.join(folder, 'mine')], file: 'k.cu' }, KERNELS)).toBe(
    path.join(folder, 'mine/k.cu'),
  );
  expect(
    await localSource({ ...target, folders: [path.join(KERNELS, 'flashcore_v7')], file: 'flashcore_v6.cu' }, KERNELS),
  ).toBe(path.join(KERNELS, 'flashcore_v6/flashcore_v6.cu'));
});

test.each(['faulty/nan_output', 'cheating/small_values'])(
  'localSource() also finds the source of %s, a kernel of the local runner',
  async (place) => {
    const kernelId = path.basename(place);
    expect(await localSource({ kernelId, folders: [], line: 0, column: 0 }, KERNELS)).toBe(
      path.join(KERNELS, place, `${kernelId}.cu`),
    );
  },
);

test('if two folders have the kernel, the one with the compiled source is opened', async () => {
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
  expect(await localSource({ ...target, folders: [mine, copy], compiled }, undefined)).toBe(
    path.join(copy, 'flashcore_v6.cu'),
  );
});

test('a path that leads out of the folder is ignored', async () => {
  expect(
    await localSource({ ...target, folders: [path.join(folder, 'mine')], file: '../secret' }, undefined),
  ).toBeUndefined();
});

test('the copy of a source compiled elsewhere is read-only, and its path says so', async () => {
  const compiled = create(ArtifactSchema, { kind: ArtifactKind.SOURCE, fileName: '../k.cu', sha256: 'abc' });
  const file = await compiledCopy(compiled, (sha256) => Promise.resolve(Buffer.from(`of ${sha256}`)));
  expect({ file, text: readFileSync(file, 'utf8'), mode: statSync(file).mode & 0o777 }).toEqual({
    file: expect.stringMatching(/fa-tui-read-only-copy-\w+\/k\.cu$/) as string,
    text: 'of abc',
    mode: 0o400,
  });
  rmSync(path.dirname(file), { recursive: true });
});

test.each([
  ['flashcore_v6.cu:87', { file: 'flashcore_v6.cu', line: 87, column: 0 }],
  ['at k.cu:9:3 (barrier 2)', { file: 'k.cu', line: 9, column: 3 }],
  ['nowhere', undefined],
])('parsePlace() reads the place in "%s"', (text, place) => {
  expect(parsePlace(text)).toEqual(place);
});
