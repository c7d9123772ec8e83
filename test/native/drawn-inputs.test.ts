/** The native library draws, on all threads, the same inputs that JavaScript draws one after another. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { NORMAL, drawInputs } from '@flashcore/runner/testing';
import { attentionCase, parseCases } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { compiledReference } from '../support/reference.ts';
import { repositoryRoot } from '../support/repository-root.ts';

const reference = await compiledReference();

// The cases have more elements than one task of the library's threads, an odd number of elements, and one element. The
// seeds have 4 to 128 bits.
test.each([
  { seed: 'c0de', dtype: 'fp16', batch: 2, heads: 9, sequenceLength: 512, headDim: 64 },
  { seed: 'c0de', dtype: 'bf16', batch: 1, heads: 9, sequenceLength: 512, headDim: 64 },
  { seed: 'fedcba9876543210', dtype: 'fp32', batch: 1, heads: 3, sequenceLength: 37, headDim: 3 },
  { seed: '00112233445566778899aabbccddeeff', dtype: 'fp16', batch: 1, heads: 1, sequenceLength: 1, headDim: 1 },
] as const)(
  'inputs drawn on all threads equal those drawn one after another: $dtype, $batch x $heads x $sequenceLength x $headDim',
  ({ seed, dtype, ...extent }) => {
    const drawn = attentionCase({ ...extent, causal: false }, dtype);
    const input = { seed, rule: { ...NORMAL, logitScale: 8, valueScale: 0.01 } };
    expect(drawInputs(drawn, input, reference)).toEqual(drawInputs(drawn, input));
  },
);

const { distributions, probes } = parseCases(readFileSync(join(repositoryRoot(), 'kernels/cases.yaml'), 'utf8'), '');

test.each([...Object.values(distributions), ...probes.distributions])(
  'an input of $name has the same bits with and without native normal values',
  (rule) => {
    const shape = { batch: 1, heads: 3, sequenceLength: 77, headDim: 64, causal: false };
    for (const dtype of ['fp16', 'bf16', 'fp32', 'e4m3'] as const) {
      const drawn = attentionCase(shape, dtype);
      expect(drawInputs(drawn, { seed: 'c0de', rule }, reference)).toEqual(drawInputs(drawn, { seed: 'c0de', rule }));
    }
  },
);

test('an output buffer that is too small is refused, and nothing is written to it', () => {
  expect(() => reference.normal(new Uint16Array(0), { dtype: 'fp16', key: 1, stream: 1, scale: 1 })).toThrow(
    'BAD_ARGUMENT',
  );
});
