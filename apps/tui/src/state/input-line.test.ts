import { expect, test } from 'vitest';
import { editedLine, partsOf, type InputLine } from './input-line.ts';

/** The line after the keys, with the cursor as "|". */
const typed = (text: string, ...keys: string[]): string =>
  partsOf(keys.reduce<InputLine>(editedLine, { text })).join('|');

test.each([
  ['a typed character goes to the cursor', ['left', 'X', 'space'], '~/a/my bX |c'],
  ['Left and Right stop at the ends', ['home', 'left', 'right', 'end', 'right'], '~/a/my bc|'],
  ['Ctrl-B and Ctrl-F move as the arrows do', ['ctrl+b', 'ctrl+b', 'ctrl+f'], '~/a/my b|c'],
  ['Ctrl-A goes to the start', ['ctrl+a'], '|~/a/my bc'],
  ['Ctrl-E goes to the end', ['ctrl+a', 'ctrl+e'], '~/a/my bc|'],
  ['Backspace deletes before the cursor', ['left', 'backspace'], '~/a/my |c'],
  ['Delete deletes at the cursor', ['left', 'delete', 'delete'], '~/a/my b|'],
  ['Ctrl-W deletes back to a space, with the spaces after the word', ['ctrl+w', 'ctrl+w'], '|'],
  ['Ctrl-W keeps what is after the cursor', ['left', 'ctrl+w'], '~/a/my |c'],
  ['Alt-Backspace deletes a part of a path', ['ctrl+w', 'alt+backspace'], '~/a/|'],
  ['Ctrl-U clears both sides of the cursor', ['left', 'ctrl+u'], '|'],
  ['Ctrl-K deletes to the end', ['left', 'left', 'ctrl+k'], '~/a/my |'],
])('%s', (_, keys, line) => expect(typed('~/a/my bc', ...keys)).toBe(line));

test('an emoji and a letter with an accent are one character each', () => {
  expect(typed('a👩‍🔬e\u0301', 'left', 'backspace')).toBe('a|e\u0301');
  expect(typed('👍', 'backspace')).toBe('|');
});

test('a key that edits no line returns the same line', () => {
  const line = { text: 'abc', after: 1 };
  expect(['up', 'tab', 'enter', 'ctrl+t', 'pagedown'].map((key) => editedLine(line, key) === line)).toEqual(
    Array.from({ length: 5 }, () => true),
  );
});

test('a text that was set from outside has its cursor at the end, also if it is shorter than before', () => {
  expect([partsOf({ text: 'ab' }), partsOf({ text: 'ab', after: 9 })]).toEqual([
    ['ab', ''],
    ['', 'ab'],
  ]);
});
