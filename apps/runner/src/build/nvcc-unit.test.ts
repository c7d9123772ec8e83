import { expect, test } from 'vitest';
import { nvccUnit } from './nvcc-unit.ts';

const argumentsOf = (version: string, entries?: number, first?: readonly string[]): readonly string[] =>
  nvccUnit({
    nvcc: { name: 'nvcc', path: '/nvcc', version, identity: version, archs: ['sm_90'] },
    arch: 'sm_90',
    files: [],
    unit: 'kernel/a.cu',
    name: 'a',
    defines: [],
    fastMath: false,
    maxRegisters: 0,
    keepPtx: false,
    ...(entries !== undefined && { entries }),
    first,
  }).stages[0]![0]!.arguments;

test.each([
  ['13.0.88', 12, true],
  ['12.1.66', 2, true],
  ['12.0.140', 12, false],
  ['11.8.89', 12, false],
  ['13.0.88', 1, false],
  ['13.0.88', undefined, false],
])('nvcc %s with %s entries: optimised in threads: %s', (version, entries, split) => {
  expect(argumentsOf(version, entries).includes('--split-compile=0')).toBe(split);
});

test('of the first entries alone: they are named to the kernel and to the assembler', () => {
  const all = argumentsOf('13.0.88', 3);
  const some = argumentsOf('13.0.88', 3, ['a', 'b']);
  expect(some.filter((each) => !all.includes(each))).toEqual([
    '-DFLASHCORE_FIRST=1',
    '-DFLASHCORE_FIRST_a=1',
    '-DFLASHCORE_FIRST_b=1',
    '-e,a,-e,b',
  ]);
  expect(some[some.indexOf('-e,a,-e,b') - 1]).toBe('-Xptxas');
});
