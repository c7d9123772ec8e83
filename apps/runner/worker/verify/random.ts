import type { Reference } from '../driver/reference.ts';

/** Draws normal values natively, on all threads. */
export type NormalDrawer = Pick<Reference, 'normal'>;

/**
 * Philox 2x32 with ten rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC11). The n-th number
 * depends only on the seed and n, so an input can be repeated from its seed on any host.
 */
export class CounterRandom {
  readonly key: number;
  readonly stream: number;
  #counter = 0;
  #second = 0;
  #hasSecond = false;

  /**
   * `seed` is hexadecimal, up to 32 digits, and is folded to 64 bits. The low half is the key; the high half and
   * `stream` form the counter's upper word.
   */
  constructor(seed: string, stream: number) {
    const value = BigInt(`0x${seed}`);
    const folded = (value ^ (value >> 64n)) & 0xffff_ffff_ffff_ffffn;
    this.key = Number(folded & 0xffff_ffffn);
    this.stream = (Number(folded >> 32n) ^ Math.imul(stream, 0x9e3779b9)) >>> 0;
  }

  /** Returns a uniform integer in 0 .. 2^32 - 1. */
  next(): number {
    if (this.#hasSecond) {
      this.#hasSecond = false;
      return this.#second;
    }
    const [first, second] = philox2x32(this.#counter++, this.stream, this.key);
    this.#second = second;
    this.#hasSecond = true;
    return first;
  }

  /** Returns a uniform integer in 0 .. count - 1. */
  below(count: number): number {
    return Math.floor((this.next() / 2 ** 32) * count);
  }

  /**
   * Fills with N(0, 1) times `scale`, by Box and Muller's method. A drawer gives the same bits sooner, but only from
   * the beginning of the stream.
   */
  fillNormal(values: Float32Array<ArrayBuffer>, scale: number, drawer?: NormalDrawer): void {
    if (drawer && values.length >= LEAST_NATIVE && this.#counter === 0 && !this.#hasSecond) {
      const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
      drawer.normal(bits, { dtype: 'fp32', key: this.key, stream: this.stream, scale });
      this.#counter = Math.ceil(values.length / 2);
      return;
    }
    for (let i = 0; i < values.length; i += 2) {
      const radius = scale * Math.sqrt(-2 * Math.log((this.next() + 1) / 2 ** 32));
      const angle = (2 * Math.PI * this.next()) / 2 ** 32;
      values[i] = radius * Math.cos(angle);
      if (i + 1 < values.length) values[i + 1] = radius * Math.sin(angle);
    }
  }
}

/** With fewer values, starting threads takes longer than drawing. */
const LEAST_NATIVE = 4096;

const MULTIPLIER = 0xd256d193;
const WEYL = 0x9e3779b9;
const ROUNDS = 10;

/** One block of Philox 2x32-10: two 32-bit numbers for a 64-bit counter and a 32-bit key. */
export function philox2x32(low: number, high: number, key: number): [number, number] {
  let left = low >>> 0;
  let right = high >>> 0;
  let round = key >>> 0;
  for (let i = 0; i < ROUNDS; ++i) {
    const mixed = (multiplyHigh(MULTIPLIER, left) ^ round ^ right) >>> 0;
    right = Math.imul(MULTIPLIER, left) >>> 0;
    left = mixed;
    round = (round + WEYL) >>> 0;
  }
  return [left, right];
}

/** Upper 32 bits of the product of two unsigned 32-bit integers. */
function multiplyHigh(a: number, b: number): number {
  const aHigh = a >>> 16;
  const aLow = a & 0xffff;
  const bHigh = b >>> 16;
  const bLow = b & 0xffff;
  const middle = aHigh * bLow + ((aLow * bLow) >>> 16);
  const carry = (middle & 0xffff) + aLow * bHigh;
  return aHigh * bHigh + Math.floor(middle / 0x10000) + Math.floor(carry / 0x10000);
}
