import type { TensorMap } from './bench.ts';

/** A function of kernels/primitives: what goes in, and what must come out. */
export interface PrimitiveCase {
  /** The function and, where there are several cases of it, which. */
  name: string;
  instruction: string;
  source: string;
  entry: string;
  threads: number;
  ctas?: number;
  inputs: Uint8Array[];
  /** The first input as a tensor map rather than a pointer. */
  tensorMap?: Omit<TensorMap, 'address'>;
  outputBytes: number;
  /** Bits, or how far an approximation may be off. */
  rule: { bits: Uint8Array } | Bound;
}

/** `errorOf` measures an output in units of what the definition allows: 1 is the most. */
export interface Bound {
  text: string;
  errorOf(output: Uint8Array): number;
}
