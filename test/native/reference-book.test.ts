/** References computed ahead of a verification: the same as those computed when they are wanted. */
import { NORMAL, ReferenceBook, drawInputs } from '@flashcore/runner/testing';
import { expect, test } from 'vitest';
import { compiledReference } from '../support/reference.ts';

type Input = (typeof inputs)[number];

const reference = await compiledReference();
const shape = { batch: 2, heads: 3, sequenceLength: 96, headDim: 64, causal: true };
const kind = { shape, dtype: 'fp16' } as const;
const inputs = ['1', '2', '3'].map((seed) => ({ seed, rule: NORMAL }));

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate);
}

test('what was prepared is what would be computed, with the yardstick of the first input of a rule', async () => {
  const book = new ReferenceBook(reference);
  const others = inputs.map(({ seed }) => ({ seed, rule: { ...NORMAL, name: 'large', logitScale: 32 } }));
  const all = [...inputs, ...others];
  book.prepare([{ kind, inputs: all }]);
  // The last is waited for: by then all have been begun.
  await until(() => book.stateOf(kind, all.at(-1)!) === 'there');
  for (const [index, input] of all.entries()) {
    const drawn = drawInputs(kind, input);
    const want = reference.fp64(drawn, shape);
    const first = index % inputs.length === 0;
    expect(await book.take(kind, input)).toEqual({
      inputs: drawn,
      want,
      plainMaxAbsError: first ? reference.maxAbsError(reference.plain(drawn, shape), want, 'fp16') : undefined,
    });
  }
});

test('each is given once; one that was not begun is left to whoever asks, and not computed afterwards', async () => {
  const book = new ReferenceBook(reference);
  book.prepare([{ kind, inputs }]);
  const [first, second, third] = inputs as [Input, Input, Input];
  // Nothing is begun before this function waits.
  expect(await book.take(kind, second)).toBeUndefined();
  await until(() => book.stateOf(kind, third) === 'there');
  expect([book.stateOf(kind, second), await book.take({ ...kind, dtype: 'bf16' }, first)]).toEqual([
    undefined,
    undefined,
  ]);
  expect([(await book.take(kind, first)) !== undefined, await book.take(kind, first)]).toEqual([true, undefined]);
});

test('one that is being computed is waited for; nothing of what was forgotten is given', async () => {
  const book = new ReferenceBook(reference);
  book.prepare([{ kind, inputs }]);
  // It begins before the event loop turns, and ends after that.
  for (let step = 0; step < 100 && book.stateOf(kind, inputs[0]!) !== 'computing'; step += 1) await Promise.resolve();
  expect(book.stateOf(kind, inputs[0]!)).toBe('computing');
  const answer = await book.take(kind, inputs[0]!);
  expect(answer?.want).toEqual(reference.fp64(drawInputs(kind, inputs[0]!), shape));
  await book.clear();
  expect(await Promise.all(inputs.map((input) => book.take(kind, input)))).toEqual([undefined, undefined, undefined]);
});

test('what lies too small to stay where it is, or is too much to keep, is not prepared', async () => {
  const book = new ReferenceBook(reference);
  const small = { ...kind, shape: { ...shape, batch: 1, heads: 1, sequenceLength: 1 } };
  const large = { ...kind, shape: { ...shape, batch: 64, heads: 64, sequenceLength: 4096 } };
  book.prepare([
    { kind: small, inputs },
    { kind: large, inputs },
  ]);
  expect([book.stateOf(small, inputs[0]!), book.stateOf(large, inputs[0]!)]).toEqual([undefined, undefined]);
  await book.clear();
});
