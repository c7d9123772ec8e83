import { createRequire } from 'node:module';
import path from 'node:path';
import { Terminal } from '@xterm/headless';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { withRowFastPath, type InkOutputClass } from './row-output.ts';

const inkFolder = path.dirname(createRequire(import.meta.url).resolve('ink'));
const { default: Original } = (await import(path.join(inkFolder, 'output.js'))) as { default: InkOutputClass };
const Fast = withRowFastPath(Original);

const SIZE = { width: 24, height: 4 };

interface Piece {
  readonly x: number;
  readonly y: number;
  readonly text: string;
}

/** All cells of a terminal with their styles. */
async function cells(
  Output: InkOutputClass,
  pieces: readonly Piece[],
  clip?: Parameters<InstanceType<InkOutputClass>['clip']>[0],
): Promise<string[]> {
  const output = new Output(SIZE);
  if (clip !== undefined) output.clip(clip);
  for (const { x, y, text } of pieces) output.write(x, y, text, { transformers: [(line) => line] });
  if (clip !== undefined) output.unclip();
  const frame = output.get();
  expect(frame.height).toBe(SIZE.height);
  const terminal = new Terminal({ cols: SIZE.width, rows: SIZE.height, allowProposedApi: true, convertEol: true });
  await new Promise<void>((resolve) => terminal.write(frame.output, resolve));
  const seen = Array.from({ length: SIZE.height * SIZE.width }, (_, place) => {
    const cell = terminal.buffer.active.getLine(Math.floor(place / SIZE.width))?.getCell(place % SIZE.width);
    return `${cell?.getChars() || ' '}${cell?.isBold() ? 'b' : ''}${cell?.isInverse() ? 'i' : ''}${cell?.getFgColor()},${cell?.getBgColor()}`;
  });
  terminal.dispose();
  return seen;
}

const text = fc.constantFrom(
  'abc',
  '│ x',
  '\u001b[1mbold\u001b[22m',
  '\u001b[7m  \u001b[27m',
  '\u001b[48;2;9;9;9m\u001b[38;5;16m▄\u001b[39m\u001b[49m',
  '漢字',
  'two\nlines',
  'a long text that is wider',
  '  ',
);
const pieces = fc.array(fc.record({ x: fc.integer({ min: 0, max: 23 }), y: fc.integer({ min: 0, max: 3 }), text }), {
  maxLength: 6,
});

test("the fast path shows the same cells as Ink's Output, whatever is written and wherever", async () => {
  await fc.assert(
    fc.asyncProperty(pieces, fc.boolean(), async (written, clipped) => {
      const clip = clipped ? { x1: 2, x2: 20, y1: 1, y2: 4 } : undefined;
      // Beyond the frame Ink makes lines longer than the screen, so there is nothing to compare.
      const inFrame = written.filter(({ x, text: { length } }) => x + length < SIZE.width || clipped);
      expect(await cells(Fast, inFrame, clip)).toEqual(await cells(Original, inFrame, clip));
    }),
    { numRuns: 150 },
  );
});
