import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { copiedKernel } from './copied-kernel.ts';
import { parseManifest } from './manifest.ts';

const MANIFEST = `# of the first step
id: first_step
title: Tiles of first_step
lesson: "one tile"
after: older # its parent
source: first_step.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
# what a CTA has
constants:
  NUM_THREADS: 128 # four warps
deprecated: "use first_step_two"
launches:
  - entry: first_step
    grid: [1, 1, 1]
    block: [NUM_THREADS, 1, 1]
    arguments: [Q, K, V, O]
# what a note said
expect:
  - { device: NVIDIA L4, value: 1, kind: measured, source: "note 1" }
`;

test('a copy has its id in names and texts, the original in `after`, new notes, and everything else unchanged', () => {
  const files = {
    'kernel.yaml': MANIFEST,
    'first_step.cu': '// first_step, not first_step_two\nextern "C" __global__ void first_step() {}\n',
    'tile.cuh': '#pragma once\n',
    'NOTES.md': '# first_step\n\nMeasured: 3 us.\n',
  };
  expect(copiedKernel(files, 'mine')).toEqual({
    'kernel.yaml': `# of the first step
id: mine
title: Tiles of mine
lesson: "one tile"
after: first_step
source: mine.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
# what a CTA has
constants:
  NUM_THREADS: 128 # four warps
launches:
  - entry: mine
    grid: [1, 1, 1]
    block: [NUM_THREADS, 1, 1]
    arguments: [Q, K, V, O]
`,
    'mine.cu': '// mine, not first_step_two\nextern "C" __global__ void mine() {}\n',
    'tile.cuh': '#pragma once\n',
    'NOTES.md': '# mine\n\nBegun as a copy of first_step.\n\n## What it changes, and why\n\n## What was measured\n',
  });
});

const KERNELS = new URL('../../../../kernels/', import.meta.url);
const LADDER = readdirSync(KERNELS).filter((name) => /^(fa|flashcore)_/.test(name));

test.each(LADDER)('a copy of %s has the same launches as the original', (name) => {
  const folder = new URL(`${name}/`, KERNELS);
  const files = Object.fromEntries(
    readdirSync(folder).map((file) => [file, readFileSync(new URL(file, folder), 'utf8')]),
  );
  const copy = copiedKernel(files, 'mine');
  const [original, own] = [files, copy].map((each) => parseManifest(each['kernel.yaml']!, 'kernel.yaml'));
  expect(own).toEqual({
    ...original!,
    id: 'mine',
    after: name,
    source: 'mine.cu',
    expectations: [],
    launches: original!.launches.map((launch) => ({
      ...launch,
      entry: launch.entry === name ? 'mine' : launch.entry,
    })),
  });
  const sources = Object.entries(copy).filter(([path]) => /\.cuh?$/.test(path));
  expect(sources.flat().join('\n')).not.toMatch(new RegExp(`\\b${name}\\b`));
});

test('a manifest in braces is refused with a remedy, because it cannot be copied line by line', () => {
  const braces = `{ id: a, title: a, lesson: a, source: a.cu, min_arch: sm_80, math: { inputs: fp16, accumulate: fp32 },
  launches: [{ entry: a, grid: [1, 1, 1], block: [1, 1, 1], arguments: [Q] }] }`;
  expect(() => copiedKernel({ 'kernel.yaml': braces }, 'mine')).toThrow(/write it without outer braces/);
});

test("a copy computes the same as its original, even if the problem has the original's name", () => {
  const manifest = MANIFEST.replace('source:', 'problem: rmsnorm # of rows\nsource:')
    .replaceAll('first_step', 'rmsnorm')
    .replace('[Q, K, V, O]', '[X, W, Y]');
  const { problem } = parseManifest(copiedKernel({ 'kernel.yaml': manifest }, 'mine')['kernel.yaml']!, 'kernel.yaml');
  expect(problem.id).toBe('rmsnorm');
});

test('parameters stay aligned with the parenthesis after a name of another length', () => {
  const files = {
    'kernel.yaml': MANIFEST,
    'first_step.cu': 'void first_step(const half* Q,\n                const half* K) {\n    first_step(1);\n}\n',
  };
  const code = (id: string): string | undefined => copiedKernel(files, id)[`${id}.cu`];
  expect(code('k')).toBe('void k(const half* Q,\n       const half* K) {\n    k(1);\n}\n');
  expect(code('longer_than_that')).toBe(
    `void longer_than_that(const half* Q,\n${' '.repeat(22)}const half* K) {\n    longer_than_that(1);\n}\n`,
  );
});
