import { expect, test } from 'vitest';
import { rowsPerTile } from './case-judgement.ts';

test('rows of a tile follow from the number of tiles, even if the last tile is short', () => {
  const cases = [
    [333, 6, 64], // ceil(333 / 64) tiles
    [512, 4, 128],
    [64, 64, 1], // a CTA a row
    [49, 1, 49],
    [100, 3, 0], // 34 to 49 rows: no power of two
    [64, 2.5, 0],
    [4, 8, 0],
  ] as const;
  expect(cases.map(([rows, tiles]) => rowsPerTile(rows, tiles))).toEqual(cases.map(([, , wanted]) => wanted));
});
