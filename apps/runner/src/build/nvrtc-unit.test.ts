import { expect, test } from 'vitest';
import { keyOf } from './compile-cache.ts';
import { withHeaderFolders } from './header-trees.ts';
import { nvrtcUnit } from './nvrtc-unit.ts';
import type { Nvrtc } from './compilers.ts';

const at = (root: string): Nvrtc => ({
  name: 'nvrtc',
  path: '/cache/nvrtc',
  version: '13.0.88',
  identity: "nvrtc 13.0.88, CUDA's headers 13.0",
  archs: ['sm_89'],
  place: { libraries: `${root}/lib64`, includes: [`${root}/include`, `${root}/include/cccl`] },
  headersVersion: '13.0',
});
const unitOf = (nvrtc: Nvrtc) =>
  nvrtcUnit({
    nvrtc,
    arch: 'sm_89',
    files: [],
    standardHeaders: [],
    unit: 'kernel/k.cu',
    name: 'k',
    defines: ['-DTILE=64'],
    fastMath: true,
    maxRegisters: 96,
    headers: [{ name: 'cutlass', folder: '/opt/cutlass', digest: '1' }],
  });

test("the arguments name the library, CUDA's headers and the kernel's own headers", () => {
  const unit = unitOf(at('/opt/cuda'));
  const args = withHeaderFolders(unit.stages[0]![0]!.arguments, unit.headers);
  expect(args[0]).toBe('/opt/cuda/lib64');
  expect(args.filter((_, index) => args[index - 1] === '-I')).toEqual([
    'kernel',
    'kernels',
    '/opt/cuda/include',
    '/opt/cuda/include/cccl',
    '/opt/cutlass',
    'emulator/nvrtc/headers',
  ]);
  expect(args).toEqual(expect.arrayContaining(['--use_fast_math', '--maxrregcount=96', '-DTILE=64']));
});

test('a build is the same wherever the toolkit is installed', () => {
  expect(keyOf(unitOf(at('/opt/cuda')))).toBe(keyOf(unitOf(at('/usr/local/cuda'))));
  expect(keyOf(unitOf({ ...at('/opt/cuda'), identity: 'another' }))).not.toBe(keyOf(unitOf(at('/opt/cuda'))));
});
