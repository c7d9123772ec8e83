import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { afterEach, expect, test } from 'vitest';
import { SourceTreeSchema, VariantSchema, type SourceTree } from '@flashcore/shared/contract';
import { sha256Of, treeDigest } from '@flashcore/shared/kernels';
import { openDatabase } from './database.ts';
import { BuildStore, SourceStore } from './sources.ts';
import { sourceTreeViolations } from './source-tree.ts';

const folder = mkdtempSync(join(tmpdir(), 'fc-sources-'));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const contents = { 'kernel.yaml': 'id: k', 'include/tile.cuh': '// tile', 'k.cu': '// k' };
const tree = (files: Record<string, string>): SourceTree =>
  create(SourceTreeSchema, {
    files: Object.entries(files).map(([path, text]) => ({
      path,
      sha256: sha256Of(text),
      sizeBytes: BigInt(text.length),
    })),
  });

function upload(sources: SourceStore, text: string): void {
  const writer = sources.openUpload();
  writer.write(Buffer.from(text));
  writer.keep(sha256Of(text));
}

test('materialize() writes a tree once, and again if the folder was changed', () => {
  const sources = new SourceStore(folder);
  Object.values(contents).forEach((text) => upload(sources, text));
  const laidOut = sources.materialize(tree(contents));
  expect(laidOut.digest).toBe(treeDigest(tree(contents)));
  expect(Object.keys(contents).map((path) => readFileSync(join(laidOut.folder, path), 'utf8'))).toEqual(
    Object.values(contents),
  );
  writeFileSync(join(laidOut.folder, 'k.cu'), '// changed');
  writeFileSync(join(laidOut.folder, '.extra'), '');
  expect(sources.materialize(tree(contents))).toEqual(laidOut);
  expect(readFileSync(join(laidOut.folder, 'k.cu'), 'utf8')).toBe('// k');
  expect(readdirSync(join(folder, 'trees')).sort()).toEqual([laidOut.digest, 'quarantine']);
});

test('materialize() names files that were not uploaded, or whose size differs from the announced size', () => {
  const sources = new SourceStore(folder);
  upload(sources, contents['kernel.yaml']);
  expect(() => sources.materialize(tree(contents))).toThrow(
    expect.objectContaining({ reason: 'SOURCES_MISSING', metadata: { missing: '2' } }) as Error,
  );
  const wrongSize = tree({ 'kernel.yaml': contents['kernel.yaml'] });
  wrongSize.files[0]!.sizeBytes = 99n;
  expect(() => sources.materialize(wrongSize)).toThrow(expect.objectContaining({ reason: 'DIGEST_MISMATCH' }) as Error);
  expect(readdirSync(join(folder, 'trees'))).toEqual([]);
});

test('a wrong size is refused, also for stored files and for a folder that already exists', () => {
  const sources = new SourceStore(folder);
  Object.values(contents).forEach((text) => upload(sources, text));
  sources.materialize(tree(contents));
  const wrong = tree(contents);
  wrong.files[1]!.sizeBytes = 1n;
  const refused = expect.objectContaining({
    reason: 'DIGEST_MISMATCH',
    message: expect.stringContaining('include/tile.cuh') as string,
  }) as Error;
  expect(() => sources.materialize(wrong)).toThrow(refused);
  expect(() => sources.findMissing(wrong.files)).toThrow(refused);
  expect(sources.findMissing(tree(contents).files)).toEqual([]);
});

test.for([
  ['/etc/passwd', 'relative'],
  ['a/../b', '".."'],
  ['a//b', 'empty name'],
  ['./a', '"."'],
  ['a\\b', 'backslash'],
  ['a\nb', 'control character'],
  ['', '1 to 255'],
  ['x'.repeat(256), '1 to 255'],
])('the path %j is refused', ([path, why]) => {
  const violations = sourceTreeViolations(tree({ 'kernel.yaml': '', [path!]: '' }).files, 'files');
  expect(violations).toEqual([{ field: 'files[1].path', description: expect.stringContaining(why!) as string }]);
});

test('a path that is a file and a folder, and more files or bytes than allowed, are refused', () => {
  expect(sourceTreeViolations(tree({ 'kernel.yaml': '', a: '', 'a/b': '' }).files, 'files')).toHaveLength(1);
  expect(
    sourceTreeViolations(
      tree(Object.fromEntries(Array.from({ length: 257 }, (_, index) => [`f${index}`, '']))).files,
      'files',
    ),
  ).toHaveLength(1);
  const large = tree({ 'kernel.yaml': '', a: '' });
  large.files.forEach((file) => {
    file.sizeBytes = 5n * 1024n * 1024n;
  });
  expect(sourceTreeViolations(large.files, 'files')).toEqual([
    { field: 'files', description: expect.stringContaining('8388608 bytes in all') as string },
  ]);
});

test('a build_id keeps its first sources and variant', () => {
  const builds = new BuildStore(openDatabase(':memory:'));
  const first = { tree: tree(contents), variant: create(VariantSchema, { parameters: { A: 1n } }) };
  builds.keep('id', first);
  builds.keep('id', { tree: tree({ 'kernel.yaml': 'id: other' }), variant: create(VariantSchema) });
  expect(builds.find('id')).toEqual(first);
});
