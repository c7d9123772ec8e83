import { create } from '@bufbuild/protobuf';
import { CodeFrameSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { frameLines } from './code-frame.ts';

const shown = (column: number): string[] =>
  frameLines(create(CodeFrameSchema, { line: 10, column, firstLine: 9, lines: ['{', '  x = y;', '}'] }), 20).map(
    ({ gutter, text }) => gutter + text,
  );

test('the line that is meant is marked without colour: by a caret, or in the gutter where no column is known', () => {
  expect(shown(3)).toEqual([' 9 │ {', '10 │   x = y;', '   │   ^', '11 │ }']);
  expect(shown(0)).toEqual([' 9 │ {', '10 ▸   x = y;', '11 │ }']);
});
