import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { hasTensorInstruction, mayUseTensorCores } from './tensor-cores.ts';

const sourceOf = (kernel: string): string =>
  readFileSync(new URL(`../../../../kernels/${kernel}/${kernel}.cu`, import.meta.url), 'utf8');

test('sources of scalar kernels name nothing that leads to tensor cores; those of WMMA and mma.sync do', () => {
  const kernels = ['fa_v1_baseline', 'flashcore_v5', 'fa_v2_wmma', 'flashcore_v10', 'flashcore_v11'];
  expect(kernels.map((kernel) => mayUseTensorCores(sourceOf(kernel)))).toEqual([false, false, true, true, true]);
});

test('words that only contain such a name do not count', () => {
  const texts = [
    '// a comma, a summary, a grammar',
    'execute(); persecuted',
    'wmma::load',
    'ptx::mma_m16n8k16(',
    'cute::gemm',
  ];
  expect(texts.map(mayUseTensorCores)).toEqual([false, false, true, true, true]);
});

test('only instructions of tensor cores count in PTX', () => {
  expect(['fma.rn.f32 %f1', 'mma.sync.aligned.m16n8k16', 'wgmma.mma_async.sync'].map(hasTensorInstruction)).toEqual([
    false,
    true,
    true,
  ]);
});
