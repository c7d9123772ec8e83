import { expect, test } from 'vitest';
import { inputRuns } from './input-runs.ts';
import { rowText } from './row.ts';

const shown = (before: string, behind: string, width: number): string => rowText(inputRuns([before, behind], width));

test('the cursor is a block at the end of the text and a bar inside it', () => {
  expect([shown('', '', 9), shown('abc', '', 9), shown('a', 'bc', 9)]).toEqual(['█', 'abc█', 'a▏bc']);
});

test('of a text that is too long, the part around the cursor is shown', () => {
  expect(shown('abcdefghij', '', 6)).toBe('…ghij█');
  expect(shown('abcdefghij', 'klmnop', 9)).toBe('…hij▏klmn');
});
