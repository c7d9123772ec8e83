import { expect, test } from 'vitest';
import { ToolLog } from './tool-log.ts';

function logged(source: string, text: string): string[] {
  const lines: string[] = [];
  const log = new ToolLog((_, line) => lines.push(line));
  for (const line of text.split('\n')) log.add(source, line);
  log.end();
  return lines;
}

test("nvcc's messages are removed with their source line and caret, and explanations and other lines stay", () => {
  const printed = `ptxas info    : 0 bytes gmem
a.cu(3): error: no operator "+" matches these operands
            operand types are: A + int
      return a + 1;
               ^

1 error detected in the compilation of "a.cu".
ptxas info    : Function properties for f
    0 bytes stack frame, 0 bytes spill stores`;
  expect(logged('nvcc', printed)).toEqual([
    'ptxas info    : 0 bytes gmem',
    '            operand types are: A + int',
    '1 error detected in the compilation of "a.cu".',
    'ptxas info    : Function properties for f',
    '    0 bytes stack frame, 0 bytes spill stores',
  ]);
});

test("g++'s messages are removed, including the last one, and the lines that name the functions stay", () => {
  const printed = `a.cu: In function 'void f()':
a.cu:11:7: error: expected initializer before 'x'
a.cu:13:59: error: 'state' was not declared in this scope`;
  expect(logged('g++', printed)).toEqual(["a.cu: In function 'void f()':"]);
});

test('the output of two concurrent compilers is not mixed', () => {
  const lines: string[] = [];
  const log = new ToolLog((source, line) => lines.push(`${source} ${line}`));
  log.add('nvcc', 'a.cu(3): error: bad');
  log.add('g++', '  kept');
  log.add('nvcc', '  source');
  log.add('nvcc', '  ^');
  log.end();
  expect(lines).toEqual(['g++   kept']);
});
