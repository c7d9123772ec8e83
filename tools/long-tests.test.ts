import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isLong, needsPackages, partOf } from './long-tests.ts';

// Each file is a long test for a different reason, except the last file, which is not a long test.
test.each([
  ['apps/runner/src/experiment/probes.test.ts', true],
  ['apps/tui/src/budget.test.ts', true],
  ['libs/emulator/tests/run.test.ts', true],
  ['test/reliability/kill.test.ts', true],
  ['test/reliability/store.test.ts', true],
  ['test/e2e/final-report.test.ts', false],
])('isLong() of %s is %s', (path, long) => {
  expect(isLong(path, readFileSync(join(import.meta.dirname, '..', path), 'utf8'))).toBe(long);
});

test.each([
  ['apps/runner/src/build/cubin-source.test.ts', true],
  ['apps/runner/src/sandbox/box.test.ts', true],
  ['test/e2e/own-folder.test.ts', true],
  ['apps/tui/src/keys/keys.test.tsx', false],
])('needsPackages() of %s is %s', (path, needs) => {
  expect(needsPackages(path, readFileSync(join(import.meta.dirname, '..', path), 'utf8'))).toBe(needs);
});

test('the parts of a list together have each item once', () => {
  const items = [...'abcdefghijk'];
  const parts = [1, 2, 3, 4].map((index) => partOf(items, index, 4));
  expect(parts.flat().toSorted()).toEqual(items);
  expect(parts.map(({ length }) => length)).toEqual([3, 3, 3, 2]);
});
