import { expect, test } from 'vitest';
import { DTYPES, TENSOR_DTYPES, bitsOf, fillOf, rangeOf, smallBits, smallValues, valueProblem } from './dtype.ts';

/** The magnitudes of the bytes 0 to 0x7f, a row for each exponent, from the formats' definitions. */
const E4M3_MAGNITUDES = [
  ...[0, 1, 2, 3, 4, 5, 6, 7].map((steps) => steps / 512),
  ...[8, 9, 10, 11, 12, 13, 14, 15].map((steps) => steps / 512),
  ...Array.from({ length: 14 }, (_, row) =>
    [8, 9, 10, 11, 12, 13, 14, 15].map((steps) => (steps * 2 ** row) / 256),
  ).flat(),
];
E4M3_MAGNITUDES[0x7f] = NaN;
const E5M2_MAGNITUDES = [
  ...[0, 1, 2, 3].map((steps) => steps / 65_536),
  ...Array.from({ length: 30 }, (_, row) => [4, 5, 6, 7].map((steps) => (steps * 2 ** row) / 65_536)).flat(),
  ...[Infinity, NaN, NaN, NaN],
];
const FLOATS = [
  ['e4m3', E4M3_MAGNITUDES],
  ['e5m2', E5M2_MAGNITUDES],
] as const;

test.each(FLOATS)('smallValues(%s) has the values of all 256 bytes', (dtype, magnitudes) => {
  expect(magnitudes).toHaveLength(128);
  expect(Array.from(smallValues(dtype))).toEqual([...magnitudes, ...magnitudes.map((value) => -value)]);
});

test('smallValues(int8) has the values of all 256 bytes', () => {
  expect(Array.from(smallValues('int8'))).toEqual(
    Array.from({ length: 256 }, (_, byte) => (byte < 128 ? byte : byte - 256)),
  );
});

test.each(FLOATS)(
  'smallBits(%s) encodes each number as its byte, and rounds a number halfway between two others to the even one',
  (dtype) => {
    const { largest } = DTYPES[dtype].format;
    const values = smallValues(dtype);
    const last = values.indexOf(largest);
    for (const sign of [0, 0x80])
      for (let byte = 0; byte < last; byte += 1) {
        const [low, high] = [values[sign | byte]!, values[sign | (byte + 1)]!];
        const middle = (low + high) / 2;
        const even = sign | (byte % 2 === 0 ? byte : byte + 1);
        const near = Math.abs(high - low) / 64;
        const [above, below] = sign ? [middle - near, middle + near] : [middle + near, middle - near];
        expect([dtype, byte, ...smallBits(Float32Array.of(low, below, middle, above), dtype)]).toEqual([
          dtype,
          byte,
          ...[sign | byte, sign | byte, even, sign | (byte + 1)],
        ]);
      }
  },
);

test.each([
  ['e4m3', [448, 464, 500, 1e30, Infinity], 0x7e],
  ['e4m3', [-448, -1e30, -Infinity], 0xfe],
  ['e4m3', [NaN], 0x7f],
  ['e4m3', [2 ** -11, 2 ** -10, 0], 0],
  ['e4m3', [-(2 ** -10), -0], 0x80],
  ['e5m2', [57_344, 65_504, Infinity], 0x7b],
  ['e5m2', [-57_344, -1e30], 0xfb],
  ['e5m2', [NaN], 0x7f],
  ['e5m2', [2 ** -17, 0], 0],
  ['int8', [126.5001, 127, 127.5, 1e30, Infinity], 127],
  ['int8', [-127.5001, -128, -1e30], 0x80],
  ['int8', [0.5, -0.5, 0, NaN], 0],
  ['int8', [1.5, 2.5, 2], 2],
] as const)('smallBits(%s) saturates: each number in %j becomes the byte %j', (dtype, values, byte) => {
  expect([...smallBits(Float32Array.from(values), dtype)]).toEqual(values.map(() => byte));
});

test('bitsOf(), fillOf() and valueProblem() support the 8-bit dtypes', () => {
  expect([bitsOf(1, 'e4m3'), bitsOf(1, 'e5m2'), bitsOf(-1, 'int8')]).toEqual([0x38, 0x3c, 0xff]);
  expect(fillOf(-2, 'e4m3')).toEqual({ bytes: 1, bits: 0xc0 });
  expect(valueProblem(128, 'int8')).toBe('must be an integer of -128 to 127, as int8 is, got 128');
});

test('rangeOf() returns the values at which conversions saturate', () => {
  expect((['e4m3', 'e5m2', 'int8'] as const).map(rangeOf)).toEqual([
    [-448, 448],
    [-57_344, 57_344],
    [-128, 127],
  ]);
});

test('the rounding error of an 8-bit format is half a unit in the last place, at least that of the smallest normal number', () => {
  for (const dtype of TENSOR_DTYPES) {
    const { bytes, format, rounding } = DTYPES[dtype];
    if (bytes > 1) continue;
    expect([dtype, rounding]).toEqual([dtype, { unit: 2 ** -(format.mantissa + 1), smallest: 2 ** format.least }]);
  }
});
