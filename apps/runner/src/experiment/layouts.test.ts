/** Tests kernels that store a tensor's axes in an order different from the problem's. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Outcome } from '@flashcore/shared/contract';
import { shapeOf } from '@flashcore/shared/kernels';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { REPOSITORY_ROOT } from '../testing/test-runner.ts';
import { openTestPlanner, type TestPlanner } from './testing/run-job.ts';

let fixture: TestPlanner;
beforeAll(() => void (fixture = openTestPlanner()));
afterAll(() => fixture.close());

const LIMITS = { timeout: 120_000 };
const FOLDER = join(REPOSITORY_ROOT, 'examples/kernels/gemm_tiles');
const read = (file: string): string => readFileSync(join(FOLDER, file), 'utf8');
const replaced = (text: string, changes: readonly (readonly [string, string])[]): string => {
  for (const [from] of changes) expect(text).toContain(from);
  return changes.reduce((found, [from, to]) => found.replaceAll(from, to), text);
};

/** gemm_tiles with B and C stored by columns, as BLAS has them, if COLUMNS is 1. */
const MANIFEST = replaced(read('kernel.yaml'), [
  ['constants:', 'layouts: { B: { order: [K, N], when: COLUMNS }, C: { order: [N, M], when: COLUMNS } }\nconstants:'],
  ['parameters:\n', 'parameters:\n  COLUMNS: { values: [0, 1], default: 0, about: "1: B and C by columns" }\n'],
]);
const SOURCE = replaced(read('gemm_tiles.cu'), [
  ['B[(size_t)B_row * K + k]', 'B[COLUMNS ? (size_t)k * N + B_row : (size_t)B_row * K + k]'],
  ['C[(size_t)row * N + column]', 'C[COLUMNS ? (size_t)column * M + row : (size_t)row * N + column]'],
]);
const shape = shapeOf({ M: 33, N: 20, K: 40 });

const uploaded = (source: string) =>
  fixture.upload({ 'kernel.yaml': MANIFEST, 'gemm_tiles.cu': source, 'NOTES.md': 'Columns.' });
const columns = { parameters: { COLUMNS: 1n } };

test.each([
  ['PASSED', SOURCE],
  // Reads and writes rows although its manifest says columns.
  ['WRONG_RESULT', read('gemm_tiles.cu')],
])('a kernel with column-major tensors is verified and timed: %s', LIMITS, async (end, source) => {
  const kernel = uploaded(source);
  const { outcome } = await fixture.run('benchmark', {
    kernel,
    variant: columns,
    settings: { shapes: [shape], protocol: { minSamples: 3, maxSamples: 3, maxSeconds: 0.1 } },
  });
  const [{ verify, benchmarks }] = outcome.result.variants as [(typeof outcome.result.variants)[number]];
  expect(Outcome[outcome.outcome]).toBe(end);
  expect(verify!.cases).toHaveLength(1);
  for (const { outputCheck } of benchmarks) expect(outputCheck).toMatch(/^right: every output of \d+ launches/);
  expect(benchmarks).toHaveLength(end === 'PASSED' ? 2 : 0);
});

test('comparisons and searches need builds that store their tensors in the same order', LIMITS, async () => {
  const kernel = uploaded(SOURCE);
  const settings = { shapes: [shape], champion: { kernel } };
  await expect(fixture.run('benchmark', { kernel, variant: columns, settings })).rejects.toThrow(
    /must store its tensors as the candidate does, B as \[K, N\], C as \[N, M\]: gemm_tiles with these parameters stores them in the problem's order/,
  );
  await expect(
    fixture.run('tune', {
      kernel,
      parameters: [{ name: 'COLUMNS', values: [0n, 1n] }],
      shapes: [shape],
    }),
  ).rejects.toThrow(/must leave the layouts of the tensors as they are, got two: .*without COLUMNS, COLUMNS/);
});

test('a result with its own layouts cannot become a champion', LIMITS, async () => {
  const { outcome } = await fixture.run('runExperiment', {
    kernel: uploaded(SOURCE),
    variant: columns,
    noFallback: true,
  });
  expect(outcome.result.acceptability).toMatchObject({
    possible: false,
    reason: expect.stringMatching(/tensors have their own order in memory/) as string,
  });
});
