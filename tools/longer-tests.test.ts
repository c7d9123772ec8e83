import { expect, test } from 'vitest';
import { longerTests } from './longer-tests.ts';

test('longerTests() names what only test:all has and what has a short form, and nothing else', () => {
  const files = longerTests();
  // Each is there for another reason.
  const expected = [
    'apps/runner/src/experiment/probes.test.ts',
    'apps/tui/src/budget.test.ts',
    'libs/emulator/tests/run.test.ts',
    'test/reliability/kill.test.ts',
    'test/reliability/store.test.ts',
  ];
  expect(expected.filter((path) => !files.includes(path))).toEqual([]);
  expect(files).not.toContain('test/reliability/requests.test.ts');
  expect(new Set(files).size).toBe(files.length);
});
