import { expect, test } from 'vitest';
import { clangUnit } from './clang-unit.ts';
import type { Clang } from './compilers.ts';

const CLANGS = {
  14: ['sm_75', 'sm_80', 'sm_86'],
  16: ['sm_80', 'sm_86', 'sm_87', 'sm_89', 'sm_90'],
  19: ['sm_80', 'sm_89', 'sm_90', 'sm_90a'],
};

function argumentsOf(version: keyof typeof CLANGS, arch: string, fastMath = false): string[] {
  const clang: Clang = {
    name: 'clang++',
    path: '/usr/bin/clang++',
    version: `${version}.0.6`,
    identity: `clang++ ${version}.0.6`,
    archs: CLANGS[version],
  };
  const common = { arch, files: [], deviceHeaders: [], unit: 'kernel/k.cu', name: 'k', defines: ['-DTILE=64'] };
  return clangUnit({ ...common, clang, fastMath }).stages[0]![0]!.arguments;
}

test('clang compiles for the requested architecture if it knows that architecture', () => {
  const args = argumentsOf(19, 'sm_90a');
  expect(args).toContain('--cuda-gpu-arch=sm_90a');
  expect(args).toContain('-DTILE=64');
  expect(args.filter((arg) => arg.includes('__CUDA_ARCH__'))).toEqual([]);
});

test('an older clang compiles for the newest architecture that it knows, and the sources see the requested one', () => {
  expect(argumentsOf(14, 'sm_89')).toEqual(
    expect.arrayContaining(['--cuda-gpu-arch=sm_86', '+ptx75', '-U__CUDA_ARCH__', '-D__CUDA_ARCH__=890']),
  );
  expect(argumentsOf(16, 'sm_90a')).toEqual(
    expect.arrayContaining(['--cuda-gpu-arch=sm_90', '+ptx78', '-D__CUDA_ARCH__=900']),
  );
});

test('fast math is used only if the manifest asks for it', () => {
  expect(argumentsOf(19, 'sm_89')).not.toContain('-DFLASHCORE_FAST_MATH=1');
  expect(argumentsOf(19, 'sm_89', true)).toContain('-DFLASHCORE_FAST_MATH=1');
});
