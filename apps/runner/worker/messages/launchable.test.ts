import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseManifest, parseShape, planLaunches, resolveVariant } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { withScratch } from './launchable.ts';

const PATH = join(import.meta.dirname, '../../../../test/fixtures/triton/matmul/kernel.yaml');
const manifest = parseManifest(readFileSync(PATH, 'utf8'), PATH);
const plan = planLaunches(manifest, resolveVariant(manifest), parseShape('M=64,N=96,K=64'));
const imageWith = (scratchBytes: number) => ({ matmul: { path: 'kernel.cubin', symbol: 'matmul', scratchBytes } });

test("scratch memory that the compiled code requests becomes a workspace for all CTAs, passed as Triton's first pointer", () => {
  const { workspace, launches } = withScratch(plan, imageWith(640));
  expect(workspace).toEqual([{ name: "Triton's scratch memory", bytes: 640 * 2 * 3 }]);
  const [own, added] = [plan.launches[0]!.arguments, launches[0]!.arguments];
  expect(added.slice(0, -2)).toEqual(own.slice(0, -2));
  expect(added.slice(-2)).toEqual([{ kind: 'workspace', name: workspace[0]!.name }, { kind: 'null' }]);
});

test('code without scratch memory keeps its launch plan', () => {
  expect(withScratch(plan, imageWith(0))).toBe(plan);
  expect(withScratch(plan, 'kernel.cubin')).toBe(plan);
});
