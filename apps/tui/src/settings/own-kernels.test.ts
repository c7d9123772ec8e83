import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { OwnKernels } from './own-kernels.ts';

let home: string;
beforeEach(() => void (home = mkdtempSync(path.join(tmpdir(), 'fa-own-'))));
afterEach(() => rmSync(home, { recursive: true, force: true }));

const own = (): OwnKernels => new OwnKernels({ HOME: home, XDG_STATE_HOME: home });

function kernelFolder(id: string, manifest = `id: ${id}\ntitle: ${id} of mine\nlesson: none\n`): string {
  const folder = path.join(home, 'kernels', id);
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    path.join(folder, 'kernel.yaml'),
    `${manifest}source: k.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
launches: [{ entry: k, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q, K, V, O] }]
`,
  );
  return folder;
}

const listed = async (): Promise<string[]> => (await own().list()).kernels.map(({ kernelId }) => kernelId);

test('lists the folders that ran, each once, by id, so that a run does not move its row', async () => {
  const [a, b] = [kernelFolder('a'), kernelFolder('b')];
  for (const folder of [a, b, a, `${b}/`]) own().remember(folder);
  expect((await own().list()).kernels).toMatchObject([
    { kernelId: 'a', title: 'a of mine', folder: a },
    { kernelId: 'b', title: 'b of mine', folder: b },
  ]);
});

test('a missing folder is not listed, and a folder with a broken manifest is listed with its error', async () => {
  const [gone, broken] = [kernelFolder('gone'), kernelFolder('broken', 'id: [\n')];
  for (const folder of [gone, broken]) own().remember(folder);
  rmSync(gone, { recursive: true });
  const { kernels } = await own().list();
  expect(kernels).toMatchObject([{ kernelId: 'broken', folder: broken }]);
  expect(kernels[0]?.manifestError).toMatch(/kernel\.yaml/);
});

test('an example of the installation is marked as one, and the own folders come before it', async () => {
  const [mine, example] = [kernelFolder('mine'), kernelFolder('../examples/shipped')];
  for (const folder of [mine, example]) own().remember(folder);
  const { kernels } = await new OwnKernels({ HOME: home, XDG_STATE_HOME: home }, path.join(home, 'examples')).list();
  expect(kernels.map(({ folder, isExample }) => [folder, isExample])).toEqual([
    [mine, undefined],
    [example, true],
  ]);
});

test('lists only the latest twenty folders', async () => {
  for (let index = 1; index <= 25; ++index) own().remember(kernelFolder(`k${index}`));
  expect(await listed()).toEqual(Array.from({ length: 20 }, (_, index) => `k${6 + index}`));
});

test('a damaged list is set aside and reported', async () => {
  own().remember(kernelFolder('a'));
  const file = path.join(home, 'flashcore', 'fa-tui-folders.json');
  writeFileSync(file, '{"version": 1, "folders": [7]}');
  expect(await own().list()).toEqual({
    kernels: [],
    problem: expect.stringMatching(/^The list of your kernel folders could not be read .*folders\.0/) as string,
  });
  expect(readFileSync(`${file}.unreadable`, 'utf8')).toContain('[7]');
  expect(await own().list()).toEqual({ kernels: [], problem: undefined });
});

test('a list that cannot be written gives a message rather than an error', () => {
  const blocked = path.join(home, 'blocked');
  writeFileSync(blocked, '');
  chmodSync(blocked, 0o400);
  const message = new OwnKernels({ HOME: home, XDG_STATE_HOME: blocked }).remember(kernelFolder('a'));
  expect(message).toMatch(/kernels\/a will not be listed in view 7: /);
});

test('the digest of a folder changes with its sources and not with its notes, and an unchanged folder is not read again', async () => {
  const folder = kernelFolder('a');
  writeFileSync(path.join(folder, 'k.cu'), '// one');
  const kernels = own();
  kernels.remember(folder);
  const read = async () => (await kernels.list()).kernels[0];
  const first = await read();
  expect(first?.codeDigest).toMatch(/^[0-9a-f]{64}$/);
  expect(await read()).toBe(first);
  writeFileSync(path.join(folder, 'NOTES.md'), 'padded rows: 3 % faster');
  const noted = await read();
  expect([noted === first, noted?.codeDigest]).toEqual([false, first?.codeDigest]);
  writeFileSync(path.join(folder, 'k.cu'), '// two lines');
  const second = await read();
  expect(second?.codeDigest).not.toBe(first?.codeDigest);
  writeFileSync(path.join(folder, 'more.cuh'), '// a header');
  expect((await read())?.codeDigest).not.toBe(second?.codeDigest);
});
