import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isLong, LONG_SECONDS, needsPackages, partOf, testFiles } from './long-tests.ts';

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
  ['test/e2e/tui.test.ts', true],
  // Only tests of the long form need nvcc.
  ['apps/tui/src/commands/cli.test.ts', false],
  // The bare roots have openssl and sshd.
  ['apps/runner/src/access/access.test.ts', false],
  ['apps/tui/src/connection/ssh-runner.test.ts', false],
  ['apps/tui/src/keys/keys.test.tsx', false],
])('needsPackages() of %s is %s', (path, needs) => {
  expect(needsPackages(readFileSync(join(import.meta.dirname, '..', path), 'utf8'))).toBe(needs);
});

test('LONG_SECONDS has only long tests', () => {
  const long = testFiles().filter(({ path, text }) => isLong(path, text));
  expect(Object.keys(LONG_SECONDS).filter((path) => !long.some((file) => file.path === path))).toEqual([]);
});

test('the parts of a list together have each item once, and take equally long', () => {
  const seconds = [9, 1, 5, 4, 3, 2, 6, 6];
  const parts = [1, 2, 3].map((index) => partOf(seconds, { index, count: 3, secondsOf: (each) => each }));
  expect(parts.flat().toSorted()).toEqual(seconds.toSorted());
  expect(parts.map((part) => part.reduce((sum, each) => sum + each, 0))).toEqual([12, 12, 12]);
});
