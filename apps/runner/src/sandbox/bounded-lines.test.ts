import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { MAX_LINE_LENGTH, onBoundedLines } from './bounded-lines.ts';

async function linesOf(...chunks: string[]): Promise<string[]> {
  const stream = new PassThrough();
  const lines: string[] = [];
  onBoundedLines(stream, (line) => lines.push(line));
  for (const chunk of chunks) stream.write(chunk);
  stream.end();
  await turn();
  return lines;
}

test('joins lines from chunks, including a last line without line end', async () => {
  expect(await linesOf('a\nb', 'c\n\nd')).toEqual(['a', 'bc', '', 'd']);
});

test('a line without end is passed on in pieces as it grows', async () => {
  const lines = await linesOf(...Array.from({ length: 100 }, () => 'x'.repeat(1000)));
  expect([lines.length, Math.max(...lines.map(({ length }) => length)), lines.join('').length]).toEqual([
    Math.ceil(100_000 / MAX_LINE_LENGTH),
    MAX_LINE_LENGTH,
    100_000,
  ]);
});
