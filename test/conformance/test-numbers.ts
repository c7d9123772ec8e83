/** Numbers to test with, and their layout in memory. */

export const range = <T>(length: number, value: (index: number) => T): T[] =>
  Array.from({ length }, (_, index) => value(index));

export const bytes = (array: ArrayBufferView): Uint8Array =>
  new Uint8Array(array.buffer as ArrayBuffer, array.byteOffset, array.byteLength);

export const halves = (values: number[]): Uint16Array => new Uint16Array(Float16Array.from(values).buffer);

/** The nearest bf16 of each value, ties to even. bfloat16 is the upper half of fp32. */
export const bfloats = (values: number[]): Uint16Array =>
  Uint16Array.from(
    new Uint32Array(Float32Array.from(values).buffer),
    (word) => (word + 0x7fff + ((word >>> 16) & 1)) >>> 16,
  );
/** The value of a number rounded to bf16. */
export const bfround = (value: number): number =>
  new Float32Array(Uint32Array.of(bfloats([value])[0]! << 16).buffer)[0]!;

export const pair = (low: number, high: number): number => (low | (high << 16)) >>> 0;

/** Reproducible numbers in [0, 1). */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

/** N(0, 1) by the Box-Muller method. */
export function normals(count: number, seed: number): number[] {
  const random = generator(seed);
  return range(count, () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random()));
}

/**
 * Multiples of 1/8 up to 1: products, and sums of 64 products, are exact in fp32, and sums of 16 products in fp16 too,
 * so the order of summation does not matter.
 */
export const exact = (count: number, seed: number): number[] => {
  const random = generator(seed);
  return range(count, () => (Math.floor(random() * 17) - 8) / 8);
};

export const words = (count: number, seed: number): Uint32Array =>
  Uint32Array.from(range(count, (i) => Math.imul(i + seed, 2654435761) >>> 0));

// Returns the output's error, or Infinity if any element is NaN, so that a NaN never passes.
export function largest(output: Uint8Array, errorOf: (output: Uint8Array) => number): number {
  const error = errorOf(output);
  return Number.isNaN(error) ||
    new Float32Array(output.buffer as ArrayBuffer, output.byteOffset, output.byteLength / 4).some(Number.isNaN)
    ? Infinity
    : error;
}
