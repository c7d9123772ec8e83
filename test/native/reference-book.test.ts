/** References computed ahead of a verification equal those computed on demand. */
import { NORMAL, ReferenceBook, drawInputs, outputOf } from '@flashcore/runner/testing';
import { attentionCase, parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { compiledReference } from '../support/reference.ts';

type Input = (typeof inputs)[number];

const reference = await compiledReference();
const shape = { batch: 2, heads: 3, sequenceLength: 96, headDim: 64, causal: true };
const kind = attentionCase(shape, 'fp16');
const inputs = ['1', '2', '3'].map((seed) => ({ seed, rule: NORMAL }));

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate);
}

test("a prepared reference equals one computed on demand, including the yardstick from the rule's first input", async () => {
  const book = new ReferenceBook(reference);
  const others = inputs.map(({ seed }) => ({ seed, rule: { ...NORMAL, name: 'large', logitScale: 32 } }));
  const all = [...inputs, ...others];
  book.prepare([{ kind, inputs: all, reportPlain: true }]);
  // References are computed in order, so all have been started once the last one is there.
  await until(() => book.stateOf(kind, all.at(-1)!) === 'there');
  for (const [index, input] of all.entries()) {
    const drawn = drawInputs(kind, input);
    const answers = reference.answers(drawn, kind);
    const { want, rounding } = answers.get('O')!;
    const answer = { want, rounding: rounding! };
    const plain = reference.plain(drawn, kind);
    const first = index % inputs.length === 0;
    expect(await book.take(kind, input)).toEqual({
      inputs: drawn,
      answers,
      yardstick: first
        ? {
            maxAbsError: reference.maxAbsError(plain, answer.want, 'fp16'),
            roundingRatio: reference.roundingRatio(plain, answer, outputOf(kind)).ratio,
          }
        : undefined,
    });
  }
});

test('take() returns each answer once, and the book never computes an answer that was taken before it was started', async () => {
  const book = new ReferenceBook(reference);
  book.prepare([{ kind, inputs, reportPlain: false }]);
  const [first, second, third] = inputs as [Input, Input, Input];
  // The book starts nothing until this test waits, so the caller has to compute this answer.
  expect(await book.take(kind, second)).toBeUndefined();
  await until(() => book.stateOf(kind, third) === 'there');
  expect([book.stateOf(kind, second), await book.take({ ...kind, dtype: 'bf16' }, first)]).toEqual([
    undefined,
    undefined,
  ]);
  expect([(await book.take(kind, first)) !== undefined, await book.take(kind, first)]).toEqual([true, undefined]);
});

test('take() waits for a reference that is being computed, and returns nothing after clear()', async () => {
  const book = new ReferenceBook(reference);
  book.prepare([{ kind, inputs, reportPlain: false }]);
  // The computation starts in a microtask and ends after a turn of the event loop at the earliest.
  for (let step = 0; step < 100 && book.stateOf(kind, inputs[0]!) !== 'computing'; step += 1) await Promise.resolve();
  expect(book.stateOf(kind, inputs[0]!)).toBe('computing');
  const taken = await book.take(kind, inputs[0]!);
  expect(taken?.answers.get('O')?.want).toEqual(reference.fp64(drawInputs(kind, inputs[0]!), kind));
  await book.clear();
  expect(await Promise.all(inputs.map((input) => book.take(kind, input)))).toEqual([undefined, undefined, undefined]);
});

test('does not prepare a case with a tensor that is too small to stay in place, or too large to keep', async () => {
  const book = new ReferenceBook(reference);
  const small = attentionCase({ ...shape, batch: 1, heads: 1, sequenceLength: 1 }, 'fp16');
  const large = attentionCase({ ...shape, batch: 64, heads: 64, sequenceLength: 4096 }, 'fp16');
  const narrow = attentionCase(parseShape('1x1x1x1,Dv=4096'), 'fp16');
  const long = attentionCase(parseShape('1x1x1024x64,Skv=4000000'), 'fp16');
  const unprepared = [small, large, narrow, long];
  book.prepare(unprepared.map((each) => ({ kind: each, inputs, reportPlain: false })));
  expect(unprepared.map((each) => book.stateOf(each, inputs[0]!))).toEqual(unprepared.map(() => undefined));
  await book.clear();
});

test('keeps only as many answers as fit in memory, and computes the next answer when one was taken', async () => {
  const elements = 2 * 3 * 96 * 64;
  const book = new ReferenceBook(reference, 2 * elements);
  const [first, second, third] = inputs as [Input, Input, Input];
  book.prepare([{ kind, inputs, reportPlain: false }]);
  await until(() => book.stateOf(kind, second) === 'there');
  for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate);
  expect(inputs.map((input) => book.stateOf(kind, input))).toEqual(['there', 'there', 'wanted']);
  await book.take(kind, first);
  await until(() => book.stateOf(kind, third) === 'there');
  book.prepare([{ kind, inputs: [third, first, second], reportPlain: false }]);
  await until(() => book.stateOf(kind, first) === 'there');
  // The book is waiting for room for the third reference. clear() must end nevertheless.
  await book.clear();
  expect(book.stateOf(kind, second)).toBeUndefined();
});
