import { cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { KernelReferenceSchema, parseSha256 } from '@flashcore/shared/contract';
import { readSourceTree } from '@flashcore/shared/kernels';
import { edited } from '@flashcore/shared/testing';
import { KernelCatalog, kernelMessageOf } from './kernels.ts';
import { BuildStore, SourceStore } from './store/sources.ts';
import { openDatabase } from './store/database.ts';
import { REPOSITORY_ROOT } from './testing/test-runner.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fc-kernels-'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

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

test('list() follows the ladder, sorts numbers by value, and puts faulty kernels last', () => {
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

test('a manifest that is wrong or has another id is listed with its error, and is refused with path and key', () => {
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

test('an edit of a kernel takes effect at once; notes do not change the digest of the code', () => {
  add('k');
  const kernels = catalog();
  const digests = (): [string, string] => {
    const resolved = kernels.resolve(byId('k'));
    return [resolved.sourceDigest, kernelMessageOf(resolved, { withFiles: false }).codeDigest];
  };
  const [source, code] = digests();
  writeFileSync(join(folder, 'kernels', 'k', 'NOTES.md'), 'edited');
  const [noted, same] = digests();
  expect([noted === source, same === code]).toEqual([false, true]);
  writeFileSync(join(folder, 'kernels', 'k', 'k.cu'), '// edited');
  expect(digests()[1]).not.toBe(code);
});

test('an unknown kernel is refused with the nearest names, and a name that leads out of the folder is unknown', () => {
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

test('an uploaded copy of a kernel has the same digest as the original', async () => {
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

/** Adds a kernel that contains its own problem. */
function addWithProblem(id: string, problem: string, files: Record<string, string> = {}): string {
  add(id, `problem: ${problem}\n`);
  const place = join(folder, 'kernels', id);
  writeFileSync(join(place, 'kernel.yaml'), edited(readFileSync(join(place, 'kernel.yaml'), 'utf8'), '[Q]', '[X]'));
  cpSync(join(REPOSITORY_ROOT, 'problems/rmsnorm'), join(place, 'problem'), { recursive: true });
  const definition = join(place, 'problem/problem.yaml');
  writeFileSync(definition, edited(readFileSync(definition, 'utf8'), 'id: rmsnorm', 'id: norm'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(place, 'problem', name), text);
  return place;
}

test('a kernel can contain its problem, and an edit of that problem takes effect at once', () => {
  const place = addWithProblem('k', 'norm');
  const kernels = catalog();
  const first = kernels.resolve(byId('k'));
  expect(first.manifest.problem).toMatchObject({ id: 'norm', operation: 'own' });
  expect(first.files.map(({ path }) => path)).toEqual([
    'k.cu',
    'kernel.yaml',
    'problem/cases.yaml',
    'problem/problem.yaml',
    'problem/reference.cpp',
  ]);
  const definition = join(place, 'problem/problem.yaml');
  writeFileSync(definition, edited(readFileSync(definition, 'utf8'), /^title: .*$/m, 'title: edited'));
  const second = kernels.resolve(byId('k'));
  expect(second.manifest.problem.title).toBe('edited');
  expect(second.sourceDigest).not.toBe(first.sourceDigest);
});

test('an edit of a problem that the user installed takes effect at once', () => {
  const place = addWithProblem('k', 'norm');
  const problems = join(folder, 'problems');
  mkdirSync(problems);
  renameSync(join(place, 'problem'), join(problems, 'norm'));
  vi.stubEnv('FLASHCORE_PROBLEMS', problems);
  const kernels = catalog();
  expect(kernels.resolve(byId('k')).manifest.problem.brought).toBeUndefined();
  const definition = join(problems, 'norm/problem.yaml');
  writeFileSync(definition, edited(readFileSync(definition, 'utf8'), /^title: .*$/m, 'title: edited'));
  expect(kernels.resolve(byId('k')).manifest.problem.title).toBe('edited');
});

test.each([
  [
    'whose id differs from the one in kernel.yaml',
    'other',
    {},
    'problem/problem.yaml: must be the problem of kernel.yaml, "other", got "norm"',
  ],
  [
    "with the id of one of flashcore's own problems",
    'rmsnorm',
    {},
    'problem/problem.yaml: "rmsnorm" is a problem of flashcore\'s',
  ],
  ['that is too large', 'norm', { 'reference.cpp': `//${'x'.repeat(65_536)}` }, 'reference.cpp'],
  ['that cannot be read', 'norm', { 'problem.yaml': 'id: norm\n' }, 'problem/problem.yaml'],
])('a kernel cannot contain a problem %s', (_, problem, files, message) => {
  addWithProblem('k', problem, files);
  expect(() => catalog().resolve(byId('k'))).toThrow(
    expect.objectContaining({
      reason: 'INVALID_MANIFEST',
      message: expect.stringContaining(message) as string,
    }) as Error,
  );
});

test('a problem inside a kernel must equal the installed problem with its id, and must not be a link', () => {
  const place = addWithProblem('k', 'norm');
  const problems = join(folder, 'problems');
  cpSync(join(place, 'problem'), join(problems, 'norm'), { recursive: true });
  vi.stubEnv('FLASHCORE_PROBLEMS', problems);
  expect(catalog().resolve(byId('k')).manifest.problem.brought).toBeUndefined();
  writeFileSync(join(place, 'problem/reference.cpp'), '// everything is right\n');
  expect(() => catalog().resolve(byId('k'))).toThrow(
    'problem/reference.cpp: must be the same as in the installed problem "norm"',
  );
  const secret = join(folder, 'secret');
  writeFileSync(secret, 'id: secret\n');
  rmSync(join(place, 'problem/problem.yaml'));
  symlinkSync(secret, join(place, 'problem/problem.yaml'));
  expect(() => catalog().resolve(byId('k'))).toThrow('must be a file of its folder, not a link');
});

test('get() returns the text of NOTES.md, or nothing if there is none', () => {
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

test("notes document a kernel if they contain more than headings and the template's text", () => {
  const begun = '# k\n\nBegun as a copy of fa_v1_baseline.\n\n## What it changes, and why\n\n## What was measured\n';
  const cases: [notes: string, missing: string[]][] = [
    ['', ['NOTES.md']],
    [' \n# k\n', ['NOTES.md']],
    ['# k\n\n<!-- what was\nmeasured -->\n\n---\n- .\n', ['NOTES.md']],
    ['<!-- it never ends', ['NOTES.md']],
    ['测量过', []],
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
