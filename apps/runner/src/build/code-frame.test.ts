import { expect, test } from 'vitest';
import { codeFrame } from './code-frame.ts';

const FILES = [
  { path: 'k.cu', text: 'first\n\tint x = 1\nthird\u001b[31m red\nfourth' },
  { path: 'k.cuh', text: 'only' },
];

test('a frame has a line before and after its place, keeps the column despite tabs, and removes escape sequences', () => {
  expect(codeFrame(FILES, { file: 'k.cu', line: 2, column: 11 })).toMatchObject({
    file: 'k.cu',
    line: 2,
    column: 12,
    firstLine: 1,
    lines: ['first', '  int x = 1', 'third red'],
  });
});

test('a frame at either end of a file has fewer lines', () => {
  expect(codeFrame(FILES, { file: 'k.cu', line: 4, column: 0 })).toMatchObject({ firstLine: 3, column: 0 });
  expect(codeFrame(FILES, { file: 'k.cuh', line: 1, column: 0 })?.lines).toEqual(['only']);
});

test.each([
  ['another file', { file: 'x.cu', line: 1, column: 0 }],
  ['a line beyond the end', { file: 'k.cu', line: 5, column: 0 }],
  ['no line', { file: 'k.cu', line: 0, column: 0 }],
])('%s has no frame', (_, place) => {
  expect(codeFrame(FILES, place)).toBeUndefined();
});

test('a very long line is cut', () => {
  expect(codeFrame([{ path: 'k', text: 'x'.repeat(5_000) }], { file: 'k', line: 1, column: 0 })?.lines[0]).toHaveLength(
    240,
  );
});
