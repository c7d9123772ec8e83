/**
 * What an object has under a key of its own. By index it would also give what its prototype has: a function for
 * "toString".
 */
export const entryOf = <Value>(object: Readonly<Record<string, Value>>, key: string): Value | undefined =>
  Object.hasOwn(object, key) ? object[key] : undefined;
