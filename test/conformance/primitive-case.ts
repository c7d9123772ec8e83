import type { TensorMap } from './bench.ts';

/** A test of one function of kernels/primitives: its inputs and the wanted output. */
export interface PrimitiveCase {
  /** Name of the function and, if it has several cases, of the case. */
  name: string;
  instruction: string;
  source: string;
  entry: string;
  threads: number;
  ctas?: number;
  inputs: Uint8Array[];
  /** Passes the first input as a tensor map rather than a pointer. */
  tensorMap?: Omit<TensorMap, 'address'>;
  outputBytes: number;
  /** The exact bits, or a bound on an approximation's error. */
  rule: { bits: Uint8Array } | Bound;
}

/** `errorOf` returns the error of an output relative to what the definition allows: up to 1 is right. */
export interface Bound {
  text: string;
  errorOf(output: Uint8Array): number;
}
