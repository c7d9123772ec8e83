import { expect, test } from 'vitest';
import type { JobSpec } from '../spec/job-spec.ts';
import { wantsOf } from './node-wants.ts';

const spec = (over: object): JobSpec =>
  ({ device: { simulated: false }, resolved: { keepSass: false }, ...over }) as unknown as JobSpec;

test.each([
  ['a job whose kernel is built needs no compiler', {}, true, [], []],
  ['a job whose kernel is not built needs nvcc', {}, false, ['nvcc'], []],
  ['a job on the emulator needs g++ instead', { device: { simulated: true }, profile: {} }, false, ['g++'], []],
  [
    'a profile wants ncu, and memcheck wants compute-sanitizer',
    { profile: {}, verify: { sanitize: true } },
    true,
    [],
    ['ncu', 'compute-sanitizer'],
  ],
  ['a job with a fallback wants nvcc, even if its kernel is built', { fallback: {} }, true, [], ['nvcc']],
  ['a SASS listing wants cuobjdump', { resolved: { keepSass: true } }, true, [], ['cuobjdump']],
])('%s', (_, over, built, needs, likes) => {
  expect(wantsOf(spec(over), built)).toEqual({ needs, likes });
});
