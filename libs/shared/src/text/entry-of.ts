/**
 * The value of an object's own key. Plain indexing would also find values of the prototype, such as a function for
 * "toString".
 */
export const entryOf = <Value>(object: Readonly<Record<string, Value>>, key: string): Value | undefined =>
  // eslint-disable-next-line flashcore/no-plain-dictionary -- a key of its own
  Object.hasOwn(object, key) ? object[key] : undefined;

/** Sets an own key of an object. Plain indexing would not create one for "__proto__". */
export function setEntry<Value>(object: Record<string, Value>, key: string, value: Value): void {
  if (key === '__proto__')
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  // eslint-disable-next-line flashcore/no-plain-dictionary -- any other name is a key of its own, and faster
  else object[key] = value;
}

/** A copy of an object without a key. Destructuring would also find a value of the prototype. */
export const withoutEntry = <Value>(object: Readonly<Record<string, Value>>, key: string): Record<string, Value> =>
  Object.fromEntries(Object.entries(object).filter(([name]) => name !== key));
