import { expect, test } from 'vitest';
import { nvccUnit } from './nvcc-unit.ts';

const argumentsOf = (
  version: string,
  entries?: readonly string[],
  apart?: readonly string[],
  unit = 'kernel/a.cu',
): readonly string[] =>
  nvccUnit({
    nvcc: { name: 'nvcc', path: '/nvcc', version, identity: version, archs: ['sm_90'] },
    arch: 'sm_90',
    files: [],
    unit,
    name: 'a',
    defines: [],
    fastMath: false,
    maxRegisters: 0,
    keepPtx: false,
    ...(entries && { entries }),
    apart,
  }).stages[0]![0]!.arguments;

test.each([
  ['13.0.88', ['a', 'b', 'c'], true],
  ['12.1.66', ['a', 'b'], true],
  ['12.0.140', ['a', 'b'], false],
  ['11.8.89', ['a', 'b'], false],
  ['13.0.88', ['a'], false],
  ['13.0.88', undefined, false],
])('nvcc %s with entries %s optimizes in threads: %s', (version, entries, split) => {
  expect(argumentsOf(version, entries).includes('--split-compile=0')).toBe(split);
});

test('a unit with some of the entries passes their names to the kernel and the assembler, and is not split if it has one entry', () => {
  const all = argumentsOf('13.0.88', ['a', 'b', 'c']);
  const some = argumentsOf('13.0.88', ['a', 'b', 'c'], ['a', 'b']);
  expect(some.filter((each) => !all.includes(each))).toEqual([
    '-DFLASHCORE_FIRST=1',
    '-DFLASHCORE_FIRST_a=1',
    '-DFLASHCORE_FIRST_b=1',
    '-diag-suppress=177',
    '-e,a,-e,b',
  ]);
  expect(some[some.indexOf('-e,a,-e,b') - 1]).toBe('-Xptxas');
  expect(argumentsOf('13.0.88', ['a', 'b', 'c'], ['a'])).not.toContain('--split-compile=0');
});

test.each([
  ['kernel/a.cu', false],
  ['kernel/a.ptx', false],
  ['kernel/a.cuh', true],
])('%s is compiled with -x cu: %s', (unit, told) => {
  expect(argumentsOf('13.0.88', undefined, undefined, unit).join(' ').includes(' -x cu ')).toBe(told);
});
