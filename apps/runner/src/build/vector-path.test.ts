import { expect, test } from 'vitest';
import { chooseVectorPath, vectorFlags, vectorPathsOf, type Processor } from './vector-path.ts';

const AVX2 = 'avx2 bmi1 bmi2 f16c fma movbe'.split(' ');
const AVX512 = [...AVX2, ...'avx512f avx512bw avx512cd avx512dq avx512vl'.split(' ')];
const x64 = (...features: string[]): Processor => ({ arch: 'x64', features: new Set(features) });

test("`auto` selects the best path that the processor's features allow", () => {
  const processors = [
    x64(...AVX512),
    x64(...AVX512.filter((feature) => feature !== 'avx512bw')),
    x64(...AVX2.filter((feature) => feature !== 'fma')),
    { arch: 'arm64', features: new Set(['asimd']) },
    { arch: 'riscv64', features: new Set<string>() },
  ];
  expect(processors.map((each) => chooseVectorPath('auto', each))).toEqual([
    'avx512',
    'avx2',
    'portable',
    'neon',
    'portable',
  ]);
});

test('a lower path than the best can be chosen, but not a path that the processor lacks', () => {
  expect(chooseVectorPath('avx2', x64(...AVX512))).toBe('avx2');
  expect(() => chooseVectorPath('avx512', x64(...AVX2))).toThrow(
    'this processor has no avx512: use avx2 or portable, or auto',
  );
  expect(() => chooseVectorPath('neon', x64(...AVX2))).toThrow('this processor has no neon');
});

test('no flag depends on the compiling processor', () => {
  const flags = vectorPathsOf('x64').flatMap(vectorFlags);
  expect(flags).toEqual([
    ...['-march=x86-64-v4', '-mno-lzcnt', '-mprefer-vector-width=512'],
    ...['-march=x86-64-v3', '-mno-lzcnt'],
  ]);
});
