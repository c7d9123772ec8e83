/** Conversions between number formats, and approximate functions. */
import type { PrimitiveCase } from './bench.ts';
import { range, bfloats, bytes, halves, largest, normals } from './test-numbers.ts';

export function packHalf2(): PrimitiveCase {
  const all = [...new Float16Array(Uint16Array.from(range(0x7c00, (i) => i)).buffer)];
  // Every finite fp16 magnitude, the midpoint to its neighbor (a tie), values next to the midpoint, and values that
  // overflow or underflow.
  const ties = all.slice(1).map((value, i) => (value + all[i]!) / 2);
  const near = ties.flatMap((tie) => [tie * (1 + 2 ** -20), -tie * (1 - 2 ** -20)]);
  const values = Float32Array.from([
    ...all,
    ...ties,
    ...near,
    65519,
    65520,
    -65520,
    1e30,
    Infinity,
    -Infinity,
    1e-30,
    -0,
  ]);
  const count = Math.floor(values.length / 512) * 256; // whole blocks; the special values are at the end
  const pairs = values.slice(values.length - 2 * count);
  const packed = halves([...pairs]);
  return {
    name: 'pack_half2',
    instruction: 'cvt.rn.f16x2.f32',
    source: 'primitives',
    entry: 'pack_half2_all',
    threads: 256,
    ctas: count / 256,
    inputs: [bytes(pairs)],
    outputBytes: 4 * count,
    rule: { bits: bytes(packed) },
  };
}

export function packBfloat2(): PrimitiveCase {
  // Every positive bf16, the midpoint to its neighbor (a tie) and values next to it, as fp32 bits, with both signs.
  const words = range(0x7f7f, (i) => i << 16).flatMap((word) => [word, word + 0x7fff, word + 0x8000, word + 0x8001]);
  const positive = new Float32Array(Uint32Array.from(words).buffer);
  const all = [...positive, ...positive.map((value) => -value), Infinity, -Infinity];
  const values = Float32Array.from(all.slice(all.length % 512));
  return {
    name: 'pack_bfloat2',
    instruction: 'cvt.rn.bf16x2.f32',
    source: 'primitives',
    entry: 'pack_bfloat2_all',
    threads: 256,
    ctas: values.length / 512,
    inputs: [bytes(values)],
    outputBytes: 2 * values.length,
    rule: { bits: bytes(bfloats([...values])) },
  };
}

export function exp2Approx(): PrimitiveCase {
  const x = Float32Array.from([
    ...range(65_536 - 512, (i) => -130 + (i / 65_024) * 150),
    ...normals(506, 5),
    -Infinity,
    0,
    -0,
    1,
    -126,
    -149,
  ]);
  const errorOf = (output: Uint8Array): number => {
    const y = new Float32Array(output.buffer as ArrayBuffer, output.byteOffset, x.length);
    return Math.max(
      ...range(x.length, (i) => {
        const want = 2 ** x[i]!;
        // With .ftz a subnormal result becomes zero or, if rounding reaches it, the smallest normal number.
        if (want < 2 ** -126 && y[i] === 0) return 0;
        if (want < 2 ** -126) return want > 2 ** -126 * (1 - 2 ** -22) ? 1 : Infinity;
        return Math.abs(y[i]! - want) / want / 2 ** -22;
      }).filter((error) => error > 0),
      0,
    );
  };
  return {
    name: 'exp2_approx',
    instruction: 'ex2.approx.ftz.f32',
    source: 'primitives',
    entry: 'exp2_approx_all',
    threads: 256,
    ctas: 256,
    inputs: [bytes(x)],
    outputBytes: 4 * x.length,
    rule: {
      text: 'relative error at most 2^-22; results below 2^-126 are 0',
      errorOf: (output) => largest(output, errorOf),
    },
  };
}
