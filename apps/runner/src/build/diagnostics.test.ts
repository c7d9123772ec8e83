import { expect, test } from 'vitest';
import { parseClangDiagnostics, parseGnuDiagnostics, parseNvccDiagnostics, codeFrame } from './diagnostics.ts';

test('parseNvccDiagnostics() takes the column from the caret', () => {
  const recorded = `syntax_error.cu(9): error: expected a ";"
    attend_keys(state, Q + head_offset + (size_t)q_index * HEAD_DIM, K + head_offset, V + head_offset, 0, causal ? q_index + 1 : seq_len, scale);
    ^

1 error detected in the compilation of "syntax_error.cu".`;
  expect(parseNvccDiagnostics(recorded.split('\n'))).toEqual([
    { severity: 'error', file: 'syntax_error.cu', line: 9, column: 3, message: 'expected a ";"', tool: 'nvcc' },
  ]);
});

test('parseNvccDiagnostics() reads warnings with a number, ptxas and fatal errors', () => {
  const lines = [
    'a.cu(3): warning #177-D: variable "x" was declared but never referenced',
    "ptxas error   : Entry function 'f' uses too much shared data (0x11400 bytes, 0xc000 max)",
    "nvcc fatal   : Unsupported gpu architecture 'compute_70'",
  ];
  expect(
    parseNvccDiagnostics(lines).map(({ tool, severity, line, message }) => [tool, severity, line, message]),
  ).toEqual([
    ['nvcc', 'warning', 3, 'variable "x" was declared but never referenced'],
    ['ptxas', 'error', 0, "Entry function 'f' uses too much shared data (0x11400 bytes, 0xc000 max)"],
    ['nvcc', 'error', 0, "Unsupported gpu architecture 'compute_70'"],
  ]);
});

test('parseGnuDiagnostics() reads file, line and column', () => {
  const lines = [
    "syntax_error.cu: In function 'void syntax_error(const half*)':",
    "syntax_error.cu:8:17: error: expected initializer before 'attend_keys'",
    '    8 |   RowState state',
    "faulty/attend_row.cuh:10:8: note: 'struct RowState' declared here",
  ];
  expect(parseGnuDiagnostics(lines).map(({ file, line, column, severity }) => [file, line, column, severity])).toEqual([
    ['syntax_error.cu', 8, 17, 'error'],
    ['faulty/attend_row.cuh', 10, 8, 'note'],
  ]);
});

test("parseGnuDiagnostics() reads the assembler's capitalized messages about inline assembly, which have no column", () => {
  const lines = ['fa_v2_wmma.cu: Assembler messages:', "fa_v2_wmma.cu:168: Error: no such instruction: `bar.sync 0'"];
  expect(parseGnuDiagnostics(lines)).toEqual([
    {
      severity: 'error',
      file: 'fa_v2_wmma.cu',
      line: 168,
      column: 0,
      message: "no such instruction: `bar.sync 0'",
      tool: 'as',
    },
  ]);
});

test("reads clang's messages about CUDA, with and without a source location", () => {
  expect(
    parseClangDiagnostics([
      'In file included from <built-in>:1:',
      "kernel/k.cu:10:17: error: expected ';' at end of declaration",
      'clang++-19: error: unsupported CUDA gpu architecture: sm_12',
      '1 error generated when compiling for sm_89.',
    ]),
  ).toEqual([
    {
      severity: 'error',
      file: 'kernel/k.cu',
      line: 10,
      column: 17,
      message: "expected ';' at end of declaration",
      tool: 'clang++',
    },
    {
      severity: 'error',
      file: '',
      line: 0,
      column: 0,
      message: 'unsupported CUDA gpu architecture: sm_12',
      tool: 'clang++',
    },
  ]);
});

const FILES = [
  { path: 'k.cu', text: 'first\n\tint x = 1\nthird\u001b[31m red\nfourth' },
  { path: 'k.cuh', text: 'only' },
];

test('a code frame has the lines around the location, keeps the column despite tabs, and has no escape sequences', () => {
  expect(codeFrame(FILES, { file: 'k.cu', line: 2, column: 11 })).toMatchObject({
    file: 'k.cu',
    line: 2,
    column: 12,
    firstLine: 1,
    lines: ['first', '  int x = 1', 'third red'],
  });
});

test('a code frame at either end of a file has fewer lines', () => {
  expect(codeFrame(FILES, { file: 'k.cu', line: 4, column: 0 })).toMatchObject({ firstLine: 3, column: 0 });
  expect(codeFrame(FILES, { file: 'k.cuh', line: 1, column: 0 })?.lines).toEqual(['only']);
});

test.each([
  ['another file', { file: 'x.cu', line: 1, column: 0 }],
  ['a line beyond the end', { file: 'k.cu', line: 5, column: 0 }],
  ['no line', { file: 'k.cu', line: 0, column: 0 }],
])('a location with %s has no code frame', (_, place) => {
  expect(codeFrame(FILES, place)).toBeUndefined();
});

test('a very long line in a code frame is cut', () => {
  expect(codeFrame([{ path: 'k', text: 'x'.repeat(5_000) }], { file: 'k', line: 1, column: 0 })?.lines[0]).toHaveLength(
    1000,
  );
});
