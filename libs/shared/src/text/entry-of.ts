/**
 * What an object has under a key of its own. By index it would also give what its prototype has: a function for
 * "toString".
 */
export const entryOf = <Value>(object: Readonly<Record<string, Value>>, key: string): Value | undefined =>
  // eslint-disable-next-line flashcore/no-plain-dictionary -- a key of its own
  Object.hasOwn(object, key) ? object[key] : undefined;

/** Gives an object a key of its own. By index "__proto__" would not be one. */
export function setEntry<Value>(object: Record<string, Value>, key: string, value: Value): void {
  if (key === '__proto__')
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  // eslint-disable-next-line flashcore/no-plain-dictionary -- any other name is a key of its own, and faster
  else object[key] = value;
}
