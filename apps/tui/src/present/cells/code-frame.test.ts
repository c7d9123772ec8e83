import { create } from '@bufbuild/protobuf';
import { CodeFrameSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { frameLines } from './cell-text.ts';

const shown = (column: number): string[] =>
  frameLines(create(CodeFrameSchema, { line: 10, column, firstLine: 9, lines: ['{', '  x = y;', '}'] }), 20).map(
    ({ gutter, text }) => gutter + text,
  );

test('lines are shifted so that a column beyond the edge is visible, with its caret', () => {
  const lines = ['for (;;) {', `  call(${'a'.repeat(80)}, wrong, ${'b'.repeat(40)});`, '}'];
  const frame = create(CodeFrameSchema, { line: 10, column: 90, firstLine: 9, lines });
  const rows = (width: number): string[] => frameLines(frame, width).map(({ gutter, text }) => gutter + text);
  expect(rows(45)).toEqual([
    ' 9 │ …',
    '10 │ …aaaaaaaaaaaaaaaa, wrong, bbbbbbbbbbbbb…',
    `   │ ${' '.repeat(19)}^`,
    '11 │ …',
  ]);
  for (const width of [20, 45, 60, 94, 95, 120]) {
    const [, meant, caret] = rows(width);
    expect(meant![caret!.indexOf('^')]).toBe('w');
    expect(meant!.length).toBeLessThanOrEqual(width);
  }
  // Some messages point behind the end of the line.
  const short = create(CodeFrameSchema, { line: 1, column: 30, firstLine: 1, lines: ['x'.repeat(29)] });
  expect(frameLines(short, 20).map(({ text }) => text)).toEqual([
    `…${'x'.repeat(14)} `.trimEnd(),
    `${' '.repeat(15)}^`,
  ]);
});

test('a place in a source is marked without color: by a caret, or in the gutter if the column is not known', () => {
  expect(shown(3)).toEqual([' 9 │ {', '10 │   x = y;', '   │   ^', '11 │ }']);
  expect(shown(0)).toEqual([' 9 │ {', '10 ▸   x = y;', '11 │ }']);
});
