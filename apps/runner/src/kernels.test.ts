import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { KernelReferenceSchema, parseSha256 } from '@flashcore/shared/contract';
import { readSourceTree } from '@flashcore/shared/kernels';
import { KernelCatalog } from './kernels.ts';
import { BuildStore } from './store/builds.ts';
import { openDatabase } from './store/database.ts';
import { SourceStore } from './store/sources.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fc-kernels-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function add(path: string, extra = '', id = path.split('/').at(-1)): void {
  mkdirSync(join(folder, 'kernels', path), { recursive: true });
  writeFileSync(
    join(folder, 'kernels', path, 'kernel.yaml'),
    `id: ${id}\ntitle: t\nlesson: l\nsource: k.cu\nmin_arch: sm_80\nmath: { inputs: fp16, accumulate: fp32 }\nlaunches: [{ entry: e, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q] }]\n${extra}`,
  );
  writeFileSync(join(folder, 'kernels', path, 'k.cu'), '// k');
}

const catalog = (): KernelCatalog =>
  new KernelCatalog(
    join(folder, 'kernels'),
    new SourceStore(join(folder, 'sources')),
    new BuildStore(openDatabase(':memory:')),
  );
const byId = (kernelId: string) => create(KernelReferenceSchema, { source: { case: 'kernelId', value: kernelId } });

test('list() follows the ladder, numbers in their order, and puts faulty kernels last', () => {
  add('v10', 'after: v9');
  add('v9', 'after: v2');
  add('v2');
  add('a1');
  add('other', 'after: nowhere');
  add('faulty/bad', 'faulty: { finding: RACE }');
  expect(
    catalog()
      .list({ includeFaulty: true })
      .map(({ kernelId }) => kernelId),
  ).toEqual(['a1', 'other', 'v2', 'v9', 'v10', 'bad']);
  expect(catalog().list({ includeFaulty: false })).toHaveLength(5);
});

test('a manifest that is wrong or names another id stands in the list with what is wrong, and is refused with path and key', () => {
  add('good');
  add('broken', 'nonsense: 1');
  add('renamed', '', 'else_where');
  expect(
    catalog()
      .list({ includeFaulty: false })
      .map(({ kernelId, manifestError }) => [kernelId, manifestError !== undefined]),
  ).toEqual([
    ['broken', true],
    ['good', false],
    ['renamed', true],
  ]);
  expect(() => catalog().resolve(byId('broken'))).toThrow(
    expect.objectContaining({
      reason: 'INVALID_MANIFEST',
      metadata: expect.objectContaining({ path: 'kernels/broken/kernel.yaml' }) as object,
    }) as Error,
  );
  expect(() => catalog().resolve(byId('renamed'))).toThrow(
    expect.objectContaining({ metadata: { path: 'kernels/renamed/kernel.yaml', key: 'id' } }) as Error,
  );
});

test('an edited kernel counts at once', () => {
  add('k');
  const kernels = catalog();
  const before = kernels.resolve(byId('k')).sourceDigest;
  writeFileSync(join(folder, 'kernels', 'k', 'k.cu'), '// edited');
  expect(kernels.resolve(byId('k')).sourceDigest).not.toBe(before);
});

test('an unknown kernel is refused with the nearest names; a name that leads out of the folder is unknown', () => {
  add('flashcore_v6');
  expect(() => catalog().resolve(byId('flashcore_v5'))).toThrow(
    expect.objectContaining({
      reason: 'KERNEL_NOT_FOUND',
      metadata: { kernel_id: 'flashcore_v5', nearest: 'flashcore_v6' },
    }) as Error,
  );
  expect(() => catalog().resolve(byId('../kernels/flashcore_v6'))).toThrow(
    expect.objectContaining({ reason: 'KERNEL_NOT_FOUND' }) as Error,
  );
});

test("an uploaded copy of a kernel has the same digest as the runner's own", async () => {
  add('k');
  const elsewhere = join(folder, 'elsewhere');
  cpSync(join(folder, 'kernels', 'k'), elsewhere, { recursive: true });
  writeFileSync(join(elsewhere, 'notes.txt'), 'stays here');
  const { tree, contents } = await readSourceTree(elsewhere);
  const sources = new SourceStore(join(folder, 'sources'));
  for (const [sha256, bytes] of contents) {
    const writer = sources.openUpload();
    writer.write(bytes);
    writer.keep(parseSha256(sha256));
  }
  const kernels = new KernelCatalog(join(folder, 'kernels'), sources, new BuildStore(openDatabase(':memory:')));
  const uploaded = kernels.resolve(create(KernelReferenceSchema, { source: { case: 'tree', value: tree } }));
  expect(uploaded.sourceDigest).toBe(kernels.resolve(byId('k')).sourceDigest);
  expect(uploaded.kernelId).toBe('k');
});

test('get() gives the text of NOTES.md, nothing where there is none', () => {
  add('noted');
  add('bare');
  writeFileSync(join(folder, 'kernels', 'noted', 'NOTES.md'), '# noted\n\nPadding: 3 % slower.\n');
  const notes = new Map(
    catalog()
      .list({ includeFaulty: false })
      .map(({ kernelId, notes: text }) => [kernelId, text]),
  );
  expect(['noted', 'bare'].map((id) => notes.get(id))).toEqual(['# noted\n\nPadding: 3 % slower.\n', '']);
});

test('a kernel is documented where its notes say something: not by headings, nor by what every copy begins with', () => {
  const begun = '# k\n\nBegun as a copy of fa_v1_baseline.\n\n## What it changes, and why\n\n## What was measured\n';
  const cases: [notes: string, missing: string[]][] = [
    ['', ['NOTES.md']],
    [' \n# k\n', ['NOTES.md']],
    [begun, ['NOTES.md']],
    [`${begun}Padding: 3 % slower.\n`, []],
  ];
  add('k');
  const found = cases.map(([notes]) => {
    writeFileSync(join(folder, 'kernels', 'k', 'NOTES.md'), notes);
    return [notes, catalog().resolve(byId('k')).undocumented];
  });
  expect(found).toEqual(cases);
});
