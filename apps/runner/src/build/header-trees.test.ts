import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ArtifactKind, FindingKind } from '@flashcore/shared/contract';
import { missing } from '@flashcore/shared/testing';
import { afterEach, expect, test } from 'vitest';
import { openTestPlanner } from '../experiment/testing/run-job.ts';
import { HeaderTrees, parseHeaderTrees } from './header-trees.ts';

const made: string[] = [];
afterEach(() => made.splice(0).forEach((folder) => rmSync(folder, { recursive: true })));

function treeOf(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'flashcore-headers-'));
  made.push(folder);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, path, '..'), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

test.each([
  ['cutlass', 'must be a name and a folder'],
  ['=/tmp', 'must be a name and a folder'],
  ['Cutlass=/tmp', 'must be a name and a folder'],
  ['cutlass=/no/such/folder', 'must name a folder, and /no/such/folder is not one'],
])('--headers %s is refused', (text, why) => {
  expect(() => parseHeaderTrees([text])).toThrow(why);
});

test('a name can be given to only one header folder', () => {
  const folder = treeOf({ 'a.h': '' });
  expect(() => parseHeaderTrees([`a=${folder}`, `a=${folder}`])).toThrow('a is named twice');
});

test('the digest of a header folder covers the paths and contents of its present plain files', () => {
  const [first, second] = [treeOf({ 'a/b.h': 'one', 'c.h': '' }), treeOf({ 'a/b.h': 'one', 'c.h': '' })];
  symlinkSync('/etc/hostname', join(first, 'link.h'));
  const digests = (): string[] => trees.now().map(({ digest }) => digest);
  const trees = new HeaderTrees(parseHeaderTrees([`first=${first}`, `second=${second}`]));
  const [before, same] = digests();
  writeFileSync(join(first, 'c.h'), 'more');
  const [after, unchanged] = digests();
  expect([same, unchanged]).toEqual([before, before]);
  expect(after).not.toBe(before);
});

test('a header folder of more than 256 MiB is refused', () => {
  const folder = treeOf({ 'a.h': '' });
  writeFileSync(join(folder, 'large.bin'), '');
  // A file with a hole, which needs no space on the disk.
  truncateSync(join(folder, 'large.bin'), 257 * 1024 ** 2);
  expect(() => new HeaderTrees([{ name: 'large', folder }]).now()).toThrow('at most 20000 files of 256 MiB together');
});

const KERNEL = {
  'kernel.yaml': `id: includes_headers
title: A kernel on headers of the host
lesson: none
source: includes_headers.cu
min_arch: sm_80
math: { inputs: fp32, accumulate: fp32 }
launches:
  - { entry: includes_headers, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q, O] }
`,
  'includes_headers.cu': `#include <tiny/twice.h>
extern "C" __global__ void includes_headers(const float* Q, float* O) { O[threadIdx.x] = tiny::twice(Q[threadIdx.x]); }
`,
};

test.skipIf(missing('nvcc'))(
  'a kernel can include --headers folders, even in a sandbox, and changed headers make another build',
  { timeout: 120_000 },
  async () => {
    const folder = treeOf({
      'tiny/twice.h': '#include "inner.h"\n',
      'tiny/inner.h': 'namespace tiny { __device__ inline float twice(float x) { return 2 * x; } }\n',
    });
    const headers = parseHeaderTrees([`tiny=${folder}`]);
    const fixture = openTestPlanner(undefined, { emulatorEngine: 'ptx', headers });
    const build = async () => {
      const { outcome } = await fixture.run('build', { kernel: fixture.upload(KERNEL) });
      const [variant] = outcome.result.variants;
      return {
        findings: variant!.findings.map(({ kind }) => FindingKind[kind]),
        cubins: variant!.build!.artifacts.filter(({ kind }) => kind === ArtifactKind.CUBIN).length,
        arguments: variant!.build!.runs[0]?.arguments.join(' '),
        tools: outcome.result.provenance!.tools.filter(({ name }) => name.startsWith('headers')),
      };
    };
    try {
      const good = await build();
      expect(good).toMatchObject({
        findings: [],
        cubins: 1,
        arguments: expect.stringContaining('-isystem @headers/tiny@') as string,
        tools: [{ name: 'headers tiny', version: expect.stringMatching(/^[0-9a-f]{64}$/) as string }],
      });
      writeFileSync(join(folder, 'tiny/inner.h'), '#error another content\n');
      const changed = await build();
      expect(changed.findings).toEqual(['COMPILE_FAILED']);
      expect(changed.tools[0]!.version).not.toBe(good.tools[0]!.version);
    } finally {
      await fixture.close();
    }
  },
);
