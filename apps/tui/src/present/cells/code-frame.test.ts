import { create } from '@bufbuild/protobuf';
import { CodeFrameSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { frameLines } from './cell-text.ts';

const shown = (column: number): string[] =>
  frameLines(create(CodeFrameSchema, { line: 10, column, firstLine: 9, lines: ['{', '  x = y;', '}'] }), 20).map(
    ({ gutter, text }) => gutter + text,
  );

test('a place in a source is marked without color: by a caret, or in the gutter if the column is not known', () => {
  expect(shown(3)).toEqual([' 9 │ {', '10 │   x = y;', '   │   ^', '11 │ }']);
  expect(shown(0)).toEqual([' 9 │ {', '10 ▸   x = y;', '11 │ }']);
});
