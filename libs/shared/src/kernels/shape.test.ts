import { create } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FlashcoreError } from '../contract/errors.ts';
import { ShapeSchema } from '../generated/flashcore/runner/v1/kernel_pb.js';
import {
  attentionCase,
  formatShape,
  isCaseName,
  isOnlyNamed,
  parseCase,
  parseShape,
  shapeViolations,
  valuesOf,
} from './shape.ts';

test('parseShape() reads the text that formatShape() writes', () => {
  const extent = fc.integer({ min: 1, max: 200 });
  fc.assert(
    fc.property(extent, extent, extent, extent, fc.boolean(), (batch, heads, sequenceLength, headDim, causal) => {
      expect(parseShape(formatShape({ batch, heads, sequenceLength, headDim, causal }))).toMatchObject({
        batch,
        heads,
        sequenceLength,
        headDim,
        causal,
      });
    }),
  );
});

test.each([
  '',
  '2x8x512',
  '2x8x512x64x1',
  '0x8x512x64',
  '2x8x-1x64',
  '2x8x512x64d',
  '2x8x5e2x64',
  '99999999999x1x1x1',
  '65536x65536x1x1',
  '2,8,512,64',
])('parseShape(%j) throws INVALID_REQUEST with a violation', (text) => {
  const error = (() => {
    try {
      return parseShape(text);
    } catch (thrown) {
      return thrown;
    }
  })();
  expect(error).toBeInstanceOf(FlashcoreError);
  expect(error).toMatchObject({
    reason: 'INVALID_REQUEST',
    violations: [{ description: expect.any(String) as string }],
  });
});

test("shapeViolations() names each wrong field of a request's shape", () => {
  expect(
    shapeViolations({ batch: 0, heads: 8, sequenceLength: -5, headDim: 64 }, 'shapes[1]').map(({ field }) => field),
  ).toEqual(['shapes[1].batch', 'shapes[1].sequence_length']);
});

test('computes FLOPs and bytes of the canonical shape', () => {
  const canonical = { batch: 2, heads: 8, sequenceLength: 512, headDim: 64, causal: false };
  expect([
    attentionCase(canonical, 'fp16').flops,
    attentionCase({ ...canonical, causal: true }, 'fp16').flops,
    attentionCase(canonical, 'fp16').bytes,
    attentionCase(canonical, 'fp32').bytes,
  ]).toEqual([1_073_741_824, 536_870_912, 4_194_304, 8_388_608]);
});

test.each([
  ['rows=128,N=4096', { rows: 128, N: 4096 }, 'N=4096,rows=128'],
  ['2x8x512x64c, Hkv=2', { B: 2, H: 8, S: 512, D: 64, causal: 1, Hkv: 2 }, '2x8x512x64c,Hkv=2'],
  ['B=2,H=8,S=512,D=64', { B: 2, H: 8, S: 512, D: 64 }, '2x8x512x64'],
  ['2x8x512x64,causal=2', { B: 2, H: 8, S: 512, D: 64, causal: 2 }, 'B=2,D=64,H=8,S=512,causal=2'],
  ['B=4,softcap=50.5', { B: 4, softcap: 50.5 }, 'B=4,softcap=50.5'],
])('%s is parsed into a case, and formatShape() gives its only canonical text', (text, values, canonical) => {
  const shape = parseShape(text);
  expect([valuesOf(shape), formatShape(shape), formatShape(parseShape(canonical))]).toEqual([
    values,
    canonical,
    canonical,
  ]);
});

test.each([
  'rows',
  'rows=',
  'rows=1,rows=2',
  'rows=1e9',
  '2x8x512x64c,causal=1',
  '=4',
  'a b=1',
  'rows=1,,N=2',
  '__proto__=1,rows=1',
  'rows=1,__proto__=2',
])('%j is refused because it is not a case', (text) => {
  expect(() => parseShape(text)).toThrow(FlashcoreError);
});

test('an extent of 2^63 is refused with the range of extents', () => {
  expect(() => parseShape('rows=9223372036854775808,N=64')).toThrow(
    'shape.values.rows: must be an integer of 1 to 2147483647, got a number of more than 12 digits',
  );
});

test('a message that gives an extent twice is refused', () => {
  const shape = { batch: 2, heads: 8, sequenceLength: 512, headDim: 64, values: { B: 3 } };
  expect(shapeViolations(shape, 'shape')).toEqual([
    { field: 'shape.values', description: 'must not have B, which has a field of its own' },
  ]);
});

test('parseCase() reads a shape, or the name of a case that the runner looks up', () => {
  expect(formatShape(parseCase('2x8x512x64c'))).toBe('2x8x512x64c');
  expect(formatShape(parseCase('rows=128,N=4096'))).toBe('N=4096,rows=128');
  const named = parseCase(' Llama-3 8B 8k ');
  expect([named.name, isOnlyNamed(named), shapeViolations(named, 'shape')]).toEqual(['Llama-3 8B 8k', true, []]);
  const masked = { ...named, causal: true };
  expect(shapeViolations(masked, 'shape')).not.toEqual([]);
  expect(() => parseCase('2x8x512')).toThrow('must be such as 2x8x512x64');
});

test.each(['', '8B', 'a, b', 'a=1', 'ends ', 'tab\t', '\u202eevil', 'é', 'x'.repeat(49)])(
  'the name %j of a case is refused',
  (name) => {
    expect(isCaseName(name)).toBe(false);
    const shape = create(ShapeSchema, { name, values: { rows: 1, N: 1 } });
    expect(shapeViolations(shape, 'shape')).toHaveLength(name === '' ? 0 : 1);
  },
);
