import { expect, test } from 'vitest';
import { COMMANDS, commandsOf, customKeysProblem, findCommands } from './commands.ts';

test('a search for a command prefers exact keys to words that contain them, and the start of a name to its middle', () => {
  expect(findCommands('b')[0]?.id).toBe('pin');
  expect(findCommands('w')[0]?.id).toBe('wrap');
  expect(findCommands('W')[0]?.id).toBe('watch-folder');
  expect(findCommands('comp')[0]?.id).toBe('compare');
  expect(findCommands('next error')[0]?.id).toBe('next-error');
  expect(['roofline', 'slow', 'sanitizer'].map((word) => findCommands(word).length > 0)).toEqual([true, true, true]);
  const found = (query: string): string[] => findCommands(query).map(({ id }) => id);
  expect(found('delete')).toEqual(['cancel', 'cancel-waiting', 'reject']);
  expect(found('night')).toEqual(['show-jobs', 'history', 'lab-log']);
  expect(found('why')).toContain('show-gates');
  expect(found('default')).toEqual(['run-kernel', 'change-form']);
  // The letters are in several words, but begin none.
  expect(found('ine')).toEqual([]);
  expect(findCommands('').length).toBe(COMMANDS.length);
});

test("a key that the user gives to a command replaces the command's own keys, and is removed from other commands", () => {
  const customKeys = { rerun: ['ctrl+r'], pin: ['x'] };
  const keysOf = new Map(commandsOf({ customKeys }).map(({ id, keys }) => [id, keys]));
  expect([keysOf.get('rerun'), keysOf.get('pin'), keysOf.get('cancel'), keysOf.get('zoom')]).toEqual([
    ['ctrl+r'],
    ['x'],
    [],
    ['+', '_'],
  ]);
  expect(findCommands('ctrl+r', { customKeys })[0]?.id).toBe('rerun');
  expect([customKeysProblem(customKeys), customKeysProblem({ reruns: ['r'] })]).toEqual([
    undefined,
    'keys: there is no command "reruns" (did you mean "rerun"?)',
  ]);
});

test('without a query, keys that apply only elsewhere come last', () => {
  const ids = findCommands('', { customKeys: {}, here: ['rerun'] }).map(({ id }) => id);
  expect(ids[0]).toBe('rerun');
  expect(ids.indexOf('mark-job')).toBeGreaterThan(ids.indexOf('leave'));
  expect(ids.indexOf('next-view')).toBeLessThan(ids.indexOf('mark-job'));
});
