import { create } from '@bufbuild/protobuf';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ToleranceSchema, type Tolerance } from '@flashcore/shared/contract';
import { parseCases } from '@flashcore/shared/kernels';
import { REPOSITORY_ROOT } from '../testing/test-runner.ts';
import { chooseTolerance } from './phase-specs.ts';

test("a tolerance has a profile's name only with the profile's numbers: wider ones are no parity", () => {
  const cases = parseCases(readFileSync(`${REPOSITORY_ROOT}/kernels/cases.yaml`, 'utf8'), 'cases.yaml');
  const chosen = (asked: Partial<Omit<Tolerance, '$typeName'>>) =>
    chooseTolerance(create(ToleranceSchema, asked), { cases, dtype: 'fp16' });
  expect([
    chooseTolerance(undefined, { cases, dtype: 'bf16' }),
    chosen({ profile: 'strict' }),
    chosen({ profile: 'parity', absolute: 100 }),
    chosen({ profile: 'parity', absolute: 100, relative: 100 }),
    chosen({ absolute: 1, relative: 2 }),
    chosen({ profile: 'parity', absolute: 0.01 }),
  ]).toEqual([
    { profile: 'parity', absolute: 0.02, relative: 0.02 },
    { profile: 'strict', absolute: 0.001, relative: 0.001 },
    { absolute: 100, relative: 0.01 },
    { absolute: 100, relative: 100 },
    { absolute: 1, relative: 2 },
    { profile: 'parity', absolute: 0.01, relative: 0.01 },
  ]);
});
