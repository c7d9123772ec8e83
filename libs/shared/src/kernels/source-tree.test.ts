import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { loadManifest, readManifestText } from './manifest.ts';
import { readNotes, readSourceTree } from './source-tree.ts';

const MANIFEST = `id: mine
title: t
lesson: l
source: mine.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
launches: [{ entry: k, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q] }]
`;

function kernelFolder(): string {
  const home = mkdtempSync(path.join(tmpdir(), 'fc-tree-'));
  onTestFinished(() => rmSync(home, { recursive: true }));
  const folder = path.join(home, 'mine');
  mkdirSync(folder);
  writeFileSync(path.join(folder, 'kernel.yaml'), MANIFEST);
  writeFileSync(path.join(folder, 'mine.cu'), '// nothing');
  writeFileSync(path.join(home, 'shared.cuh'), '// shared');
  writeFileSync(path.join(home, 'id_ed25519'), 'a private key');
  return folder;
}

test('uploads a link to a source file as that file', async () => {
  const folder = kernelFolder();
  symlinkSync('../shared.cuh', path.join(folder, 'own.cuh'));
  symlinkSync('..', path.join(folder, 'up'));
  const { tree } = await readSourceTree(folder);
  expect(tree.files.map((file) => file.path)).toEqual(['kernel.yaml', 'mine.cu', 'own.cuh']);
});

test.each([
  ['a key', '../id_ed25519', /own\.cuh is a link that must lead to a source file, and it leads to id_ed25519/],
  ['a device', '/dev/zero', /leads to zero/],
  ['a folder with the name of a source', '../folder.h', /does not lead to a file/],
  ['a pipe with the name of a source', '../pipe.h', /does not lead to a file/],
  ['a file that does not exist', '../gone.h', /leads nowhere/],
])('a link to %s is refused, and nothing of it is read', async (_, target, message) => {
  const folder = kernelFolder();
  mkdirSync(path.join(folder, '../folder.h'));
  execFileSync('mkfifo', [path.join(folder, '../pipe.h')]);
  symlinkSync(target, path.join(folder, 'own.cuh'));
  await expect(readSourceTree(folder)).rejects.toThrow(message);
});

test('refuses a manifest that is a link to another file, before it is read', async () => {
  const folder = kernelFolder();
  rmSync(path.join(folder, 'kernel.yaml'));
  symlinkSync('../id_ed25519', path.join(folder, 'kernel.yaml'));
  const refused = { reason: 'INVALID_MANIFEST', message: expect.not.stringContaining('private key') as string };
  await expect(readSourceTree(folder)).rejects.toMatchObject(refused);
  // fa-tui and agents read the manifest of a folder with the first function, and a runner lists its kernels with the
  // second.
  await expect(loadManifest(folder)).rejects.toMatchObject(refused);
  expect(() => readManifestText(folder, 'mine/kernel.yaml')).toThrow(
    'mine/kernel.yaml: must be a kernel.yaml, got a link to another file: put the manifest in its place',
  );
});

test('accepts a manifest that is a link to another kernel.yaml', async () => {
  const folder = kernelFolder();
  mkdirSync(path.join(folder, '../other'));
  renameSync(path.join(folder, 'kernel.yaml'), path.join(folder, '../other/kernel.yaml'));
  symlinkSync('../other/kernel.yaml', path.join(folder, 'kernel.yaml'));
  expect((await readSourceTree(folder)).tree.files.map((file) => file.path)).toEqual(['kernel.yaml', 'mine.cu']);
});

test('does not read a file that is too large', async () => {
  const folder = kernelFolder();
  execFileSync('truncate', ['--size', '3T', path.join(folder, 'huge.h')]);
  await expect(readSourceTree(folder)).rejects.toThrow(/must have at most 8 MiB of sources/);
});

test.each([
  ['bytes that are not UTF-8', Buffer.from('a\xff.h', 'latin1')],
  ['a backslash', Buffer.from('a\\b.h')],
  ['a control character', Buffer.from('a\u001b.h')],
  ['256 bytes with its folders', Buffer.from(`${'a'.repeat(200)}/${'b'.repeat(53)}.h`)],
])('the error names a source whose name has %s, and a remedy', async (_, name) => {
  const folder = kernelFolder();
  const file = Buffer.concat([Buffer.from(`${folder}/`), name]);
  mkdirSync(path.dirname(file.toString('latin1')), { recursive: true });
  writeFileSync(file, '');
  await expect(readSourceTree(folder)).rejects.toThrow(
    /: rename "a.*\.h": a source's path must have at most 255 bytes/,
  );
});

test('reports a manifest that is a pipe instead of waiting for it', async () => {
  const folder = kernelFolder();
  rmSync(path.join(folder, 'kernel.yaml'));
  execFileSync('mkfifo', [path.join(folder, 'kernel.yaml')]);
  await expect(readSourceTree(folder)).rejects.toMatchObject({
    reason: 'INVALID_MANIFEST',
    message: expect.stringContaining('a pipe or a device, and only a file is read') as string,
  });
});

test('NOTES.md may be a file of the folder, but not a link to a private key', async () => {
  const folder = kernelFolder();
  expect(await readNotes(folder)).toBe('');
  symlinkSync('../id_ed25519', path.join(folder, 'NOTES.md'));
  await expect(readNotes(folder)).rejects.toThrow(/leads to id_ed25519/);
  rmSync(path.join(folder, 'NOTES.md'));
  writeFileSync(path.join(folder, 'NOTES.md'), 'tried');
  expect(await readNotes(folder)).toBe('tried');
});

test("uploads only those Python files from which the kernel's PTX was compiled", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'fc-tree-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  cpSync(path.join(import.meta.dirname, '../../../../examples/kernels/triton_attention'), folder, { recursive: true });
  writeFileSync(path.join(folder, 'settings.py'), 'TOKEN = 1\n');
  mkdirSync(path.join(folder, 'venv'));
  for (let index = 0; index < 300; ++index) writeFileSync(path.join(folder, 'venv', `module${index}.py`), '');
  const { tree } = await readSourceTree(folder);
  expect(tree.files.map((file) => file.path)).toEqual(['NOTES.md', 'attention.ptx', 'attention.py', 'kernel.yaml']);
});
