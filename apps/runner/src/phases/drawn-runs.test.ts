/** The smallest shape that fails, for kernels whose limit is known. */
import { expect, test } from 'vitest';
import type { Shape } from '@flashcore/shared/contract';
import { attention, formatShape, parseShape } from '@flashcore/shared/kernels';
import { smallestFailing } from './drawn-runs.ts';

const everything = (): boolean => true;
const usual = ({ headDim }: Shape): boolean => headDim === 64 || headDim === 128;

async function shrunk(
  from: string,
  wrong: (shape: Shape) => boolean,
  takes: (shape: Shape) => boolean = usual,
): Promise<{ smallest: string; tried: string[] }> {
  const tried: string[] = [];
  const smallest = await smallestFailing(parseShape(from), {
    problem: attention(),
    takes,
    fails: async (shape) => {
      await Promise.resolve();
      tried.push(formatShape(shape));
      return wrong(shape);
    },
  });
  return { smallest: formatShape(smallest), tried };
}

test.each<[string, string, (shape: Shape) => boolean, string]>([
  ['keys beyond 512', '2x7x1031x64', ({ sequenceLength }) => sequenceLength > 512, '1x1x513x64'],
  ['heads beyond 32, in all', '5x40x17x64c', ({ batch, heads }) => batch * heads > 32, '1x33x1x64'],
  ['batches beyond 3', '9x2x40x64', ({ batch }) => batch > 3, '4x1x1x64'],
  ['a causal mask', '1x3x40x64c', ({ causal }) => causal, '1x1x1x64c'],
  ['everything', '3x5x77x128c', everything, '1x1x1x64'],
  [
    'nothing but the shape itself',
    '2x2x3x64',
    ({ batch, heads, sequenceLength }) => batch * heads * sequenceLength === 12,
    '2x2x3x64',
  ],
])('for a kernel that is wrong for %s, the smallest failing shape is found from %s', async (_, from, wrong, wanted) => {
  expect((await shrunk(from, wrong)).smallest).toBe(wanted);
});

test('smallestFailing() tries only shapes that the limits allow', async () => {
  const takes = ({ sequenceLength, headDim }: Shape): boolean =>
    sequenceLength % 16 === 0 && [64, 96].includes(headDim);
  const { smallest, tried } = await shrunk('2x3x1024x96', ({ sequenceLength }) => sequenceLength > 500, takes);
  expect(smallest).toBe('1x1x512x64');
  expect(tried.filter((shape) => !takes(parseShape(shape)))).toEqual([]);
});

test('smallestFailing() makes the same tries each time, at most 48, and tries no shape twice', async () => {
  const wrong = ({ batch, heads, sequenceLength }: Shape): boolean => batch > 70 && heads > 90 && sequenceLength > 300;
  const runs = [await shrunk('200x300x500x64c', wrong), await shrunk('200x300x500x64c', wrong)];
  expect(runs[0]).toEqual(runs[1]);
  const { smallest, tried } = runs[0]!;
  expect([smallest, new Set(tried).size]).toEqual(['71x91x301x64', tried.length]);
  expect(tried.length).toBeLessThanOrEqual(48);
  const never = await shrunk('30000000x1x1x64', ({ batch }) => batch === 30_000_000);
  expect(never.tried.length).toBeLessThanOrEqual(48);
});
