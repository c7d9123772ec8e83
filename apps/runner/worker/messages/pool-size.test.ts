import { expect, test } from 'vitest';
import { poolFor } from './pool-size.ts';

const KIB = 1024;
const pool = (launches: number, heads: number, headBytes: number, ownBytes = heads * headBytes): unknown =>
  poolFor({ launches, heads, headBytes, ownBytes });

test.each([
  // 2x8x512x64: 22 MiB of Q, K and V.
  [
    'as many launches as requested use one more head for every two launches',
    pool(200, 16, 64 * KIB),
    { launches: 200, heads: 116 },
  ],
  ['a single launch uses only its own heads', pool(1, 16, 64 * KIB), { launches: 1, heads: 16 }],
  // 2x16x1024x64: twice the launch's own heads take 24 MiB.
  ['there are no more heads than fit into L2', pool(200, 32, 128 * KIB), { launches: 65, heads: 64 }],
  ['there are at least twice the heads of one launch', pool(200, 64, 256 * KIB, 1), { launches: 129, heads: 128 }],
  [
    'there are no more launches than memory has outputs for',
    pool(200, 16, 64 * KIB, 2 ** 28),
    { launches: 4, heads: 18 },
  ],
  ['there is one launch if heads are not multiples of 16 bytes', pool(200, 16, 100), { launches: 1, heads: 16 }],
])('%s', (_, size, wanted) => {
  expect(size).toEqual(wanted);
});
