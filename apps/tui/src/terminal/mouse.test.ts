import { expect, test } from 'vitest';
import { mouseEvents } from './modes.ts';

test('wheel and left button are reported, and other mouse events are not', () => {
  expect(
    mouseEvents('j\u001b[<64;5;6M\u001b[<65;5;6Mk\u001b[<0;120;40M\u001b[<0;120;40m\u001b[<2;1;1M\u001b[<35;1;1M'),
  ).toEqual([
    { kind: 'wheel', by: -1 },
    { kind: 'wheel', by: 1 },
    { kind: 'click', column: 119, row: 39 },
  ]);
});
