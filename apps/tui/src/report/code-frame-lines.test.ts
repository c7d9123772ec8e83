import { create } from '@bufbuild/protobuf';
import { BuildResultSchema, JobEventSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { logLinesOf } from '../session/event-lines.ts';
import { buildSection } from './build-section.ts';
import { progressLine } from './progress.ts';

const BUILD = create(BuildResultSchema, {
  diagnostics: [
    {
      severity: 'error',
      file: 'k.cu',
      line: 9,
      column: 5,
      message: 'expected a ";"',
      tool: 'g++',
      frame: { file: 'k.cu', line: 9, column: 5, firstLine: 8, lines: ['  int x = 1;', '    x = 2', '}'] },
    },
  ],
});
const [DIAGNOSTIC] = BUILD.diagnostics;
const FORMAT = { width: 80, unicode: true, style: (_: string, text: string) => text };

test('a plain report quotes the source of an error with a caret under its column', () => {
  const lines = buildSection(BUILD, FORMAT as never);
  const at = lines.findIndex((line) => line.includes('expected a'));
  expect(lines.slice(at, at + 5)).toEqual([
    '    expected a ";"',
    '     8 │   int x = 1;',
    '     9 │     x = 2',
    '       │     ^',
    '    10 │ }',
  ]);
});

const event = (payload: object) => create(JobEventSchema, { payload: payload as never });

test("g++'s own line is left to the diagnostic that says the same with its source", () => {
  const line = event({ case: 'logLine', value: { source: 'g++', text: 'k.cu:9:5: error: expected a ";"' } });
  const other = event({ case: 'logLine', value: { source: 'g++', text: 'k.cu: In function f' } });
  expect([logLinesOf(line), progressLine(line)]).toEqual([[], undefined]);
  expect([logLinesOf(other).length, progressLine(other)?.line]).toEqual([1, '  g++: k.cu: In function f']);
  expect(logLinesOf(event({ case: 'diagnostic', value: DIAGNOSTIC })).map(({ text }) => text)).toEqual([
    'k.cu:9:5: error: expected a ";"',
    ' 8 │   int x = 1;',
    ' 9 │     x = 2',
    '   │     ^',
    '10 │ }',
  ]);
});
