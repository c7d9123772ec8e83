import { expect, test } from 'vitest';
import type { JobSpec } from '../spec/job-spec.ts';
import { wantsOf } from './node-wants.ts';

const spec = (over: object): JobSpec =>
  ({ device: { simulated: false }, resolved: { keepSass: false }, ...over }) as unknown as JobSpec;

test.each([
  ['what is built needs no compiler', {}, true, [], []],
  ['what is not needs one', {}, false, ['nvcc'], []],
  ['the emulator has one of its own', { device: { simulated: true }, profile: {} }, false, ['g++'], []],
  [
    'counters are ncu’s, memcheck is compute-sanitizer’s',
    { profile: {}, verify: { sanitize: true } },
    true,
    [],
    ['ncu', 'compute-sanitizer'],
  ],
  ['a fallback is compiled where it is wanted', { fallback: {} }, true, [], ['nvcc']],
  ['a listing is cuobjdump’s', { resolved: { keepSass: true } }, true, [], ['cuobjdump']],
])('%s', (_, over, built, needs, likes) => {
  expect(wantsOf(spec(over), built)).toEqual({ needs, likes });
});
