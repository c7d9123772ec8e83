import { expect, test } from 'vitest';
import { emulatorUnit } from './emulator-unit.ts';

const KERNEL = `#pragma unroll
for (int i = 0; i < 4; ++i) {
  #pragma unroll 2
  while (more()) step();
}
#pragma unroll (64)
  for (;;) break;
#pragma unroll WIDTH
for (;;) break;
#pragma unroll
step();
`;

function sourceFor(compiler: 'g++' | 'clang++', instrumented: boolean): string[] {
  const { files } = emulatorUnit({
    cxx: { name: compiler, path: `/usr/bin/${compiler}`, version: '12.2.0' } as never,
    files: [{ path: 'kernel/k.cu', text: KERNEL }],
    emulatorFiles: [],
    unit: 'kernel/k.cu',
    name: 'k',
    defines: [],
    entries: [],
    instrumented,
  });
  return files.find(({ path }) => path === 'kernel/k.cu')!.text.split('\n');
}

test('g++ unrolls the same loops as nvcc, and lines keep their numbers', () => {
  expect(sourceFor('g++', false)).toEqual([
    '#line 1 "k.cu"',
    '#pragma GCC unroll 16',
    'for (int i = 0; i < 4; ++i) {',
    '  #pragma GCC unroll 2',
    '  while (more()) step();',
    '}',
    '#pragma GCC unroll 16',
    '  for (;;) break;',
    '#pragma unroll WIDTH',
    'for (;;) break;',
    '#pragma unroll',
    'step();',
    '',
  ]);
});

test.each([
  ['clang++, which knows the pragma', 'clang++', false],
  ['the module with race checks', 'g++', true],
] as const)('loops keep #pragma unroll for %s', (_, compiler, instrumented) => {
  expect(sourceFor(compiler, instrumented)).toEqual(['#line 1 "k.cu"', ...KERNEL.split('\n')]);
});
