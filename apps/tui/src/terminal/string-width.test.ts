import fc from 'fast-check';
import measured from 'string-width';
import { ALL_TESTS } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import stringWidth from './string-width.ts';

/** The short form has the first 0x3400 characters, which include every script with marks, and each seventh other. */
const stepAfter = (code: number): number => (ALL_TESTS || code < 0x3400 ? 1 : 7);

test('every character has the width that string-width gives', () => {
  const different: string[] = [];
  for (let code = 0; code <= 0xffff; code += stepAfter(code)) {
    const character = String.fromCharCode(code);
    if (stringWidth(character) !== measured(character)) different.push(code.toString(16));
  }
  expect(different).toEqual([]);
});

const piece = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom(
    '│ ',
    '▁▂█',
    '\u001b[1m',
    '\u001b[38;2;1;2;3m',
    '\u001b[0',
    '\u001b[',
    '\u001b[2K',
    '\u001b]8;;x\u0007',
    'é',
    'e\u0301',
    '✓\ufe0f',
    '✓\u0301',
    '漢',
    '👩‍👩‍👧',
    '·',
    '\t',
    '\n',
  ),
);

test('any text, including colors and similar sequences, has the width that string-width gives', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      expect(stringWidth(pieces.join(''))).toBe(measured(pieces.join('')));
    }),
    { numRuns: 2_000 },
  );
});
