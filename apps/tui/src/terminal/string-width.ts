/**
 * The number of terminal cells that a text takes, with the results of the package string-width, but faster for this
 * program's texts. The build replaces the package with this module, because Ink calls the function for every cell of
 * every frame. With the package, these calls took 40 % of a frame's time.
 */
import measured, { type Options } from 'string-width';

const ESCAPE = 0x1b;
const LEFT_BRACKET = 0x5b;
const LETTER_M = 0x6d;

// Characters of width 1 in every terminal: ASCII, box drawing, blocks, braille, and the marks and arrows of the views.
const ONE_CELL = oneCellTable([
  [0x20, 0x7e],
  [0x2500, 0x259f],
  [0x2800, 0x28ff],
  [0x2190, 0x2193],
  ...[...'●○▸▾✓✗⚠★–Δμ±·×…≤≥›²³'].map((character): [number, number] => [
    character.codePointAt(0)!,
    character.codePointAt(0)!,
  ]),
]);

/** Width of `text`. Colors and other SGR sequences have no width. */
export default function stringWidth(text: string, options?: Options): number {
  return (options === undefined ? simpleWidth(text) : undefined) ?? measured(text, options);
}

/**
 * The width if every character takes one cell or is part of an SGR sequence; undefined if a character needs
 * string-width.
 */
function simpleWidth(text: string): number | undefined {
  let cells = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (ONE_CELL[code] === 1) cells += 1;
    else if (code === ESCAPE && text.charCodeAt(index + 1) === LEFT_BRACKET) {
      index = endOfSgr(text, index + 2);
      if (index < 0) return undefined;
    } else return undefined;
  }
  return cells;
}

/** Index of the final "m"; -1 if `start` is not the start of an SGR sequence. */
function endOfSgr(text: string, start: number): number {
  for (let index = start; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === LETTER_M) return index;
    // Only digits and ";" are part of the sequence.
    if (!(code >= 0x30 && code <= 0x39) && code !== 0x3b) return -1;
  }
  return -1;
}

function oneCellTable(ranges: readonly (readonly [number, number])[]): Uint8Array {
  const table = new Uint8Array(0x1_0000);
  for (const [first, last] of ranges) table.fill(1, first, last + 1);
  return table;
}
