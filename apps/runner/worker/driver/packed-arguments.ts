import { addressOf } from './declarations.ts';

/**
 * The bytes behind the addresses of a parameter array. A driver in another process needs them because it cannot use the
 * addresses.
 */
const packed = new WeakMap<object, readonly Buffer[]>();

/**
 * Builds the array of argument addresses that cuLaunchKernel takes. `values` must live as long as they are launched.
 */
export function parameterArray(values: readonly Buffer[]): BigUint64Array {
  const parameters = BigUint64Array.from(values.length > 0 ? values.map(addressOf) : [0n]);
  packed.set(parameters, values);
  return parameters;
}

/** The arguments of an array that parameterArray() made. */
export function argumentsOf(parameters: object): readonly Buffer[] {
  const values = packed.get(parameters);
  if (!values) throw new TypeError('a parameter array must be made by parameterArray()');
  return values;
}
