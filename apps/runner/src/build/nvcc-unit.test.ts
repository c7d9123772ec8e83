import { expect, test } from 'vitest';
import { nvccUnit } from './nvcc-unit.ts';

const argumentsOf = (version: string, entries?: number): readonly string[] =>
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
