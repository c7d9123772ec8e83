import { expect, test } from 'vitest';
import type { Reporter } from '../reporter.ts';
import type { InputRotation, InputSet } from './input-rotation.ts';
import { OutputChecks } from './output-checks.ts';

const SET = {} as InputSet;
const REACHABLE = 1_000;

/** Checks of a kernel that is right unless `problem` says what is wrong. */
const checksOf = (problem?: string): OutputChecks =>
  new OutputChecks(
    { refresh: () => undefined, check: () => problem } as unknown as InputRotation,
    { step: () => Promise.resolve() } as unknown as Reporter,
    REACHABLE,
  );

test('time that is up before a secret sample came is no wrong output: the next sample is checked in its place', async () => {
  const checks = checksOf();
  // The secret ones lie in the first half of what should be reached.
  expect([checks.reached, checks.wants(REACHABLE)]).toEqual([false, false]);
  checks.demand(REACHABLE);
  expect(checks.wants(REACHABLE)).toBe(true);
  await checks.secret(SET);
  expect([checks.reached, checks.report().outputCheck.passed]).toEqual([true, true]);
});

test('what is wrong there is told', async () => {
  const checks = checksOf('O is zero');
  checks.demand(0);
  await checks.secret(SET);
  expect(checks.report().outputCheck).toEqual({ passed: false, detail: 'at a secret sample: O is zero' });
});
