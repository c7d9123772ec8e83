/** Makes documents fit into a tool's answer, whatever a kernel, a label or a job put into them. */
import { plainText } from '@flashcore/shared/text';
import { bounded } from '../search/feedback.ts';

export type Document = Readonly<Record<string, unknown>>;

/** Length in bytes of the JSON text that is sent for a document. */
export const documentBytes = (document: unknown): number => Buffer.byteLength(JSON.stringify(document));

/**
 * The document with cleaned texts. If it is longer than `most` bytes, its longest fields are shortened, and `left_out`
 * names these fields with their original sizes.
 */
export function fitted(document: Document, most: number): Document {
  let short = cleaned(document) as Record<string, unknown>;
  const leftOut = new Map<string, string>();
  while (documentBytes(short) > most) {
    const [name, value] = longestField(short);
    const shorter = shortened(value);
    if (documentBytes(shorter) >= documentBytes(value)) throw new Error(`An answer of ${most} bytes is too small`);
    if (!leftOut.has(name)) leftOut.set(name, extentOf(value));
    short = { ...short, [name]: shorter, left_out: [] };
    short['left_out'] = [...leftOut].map(([each, had]) => `${each} had ${had}`);
  }
  return short;
}

function cleaned(value: unknown): unknown {
  if (typeof value === 'string') return plainText(value);
  if (Array.isArray(value)) return value.map(cleaned);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [plainText(name), cleaned(each)]));
}

const longestField = (document: Document): [string, unknown] =>
  Object.entries(document)
    .filter(([name]) => name !== 'left_out')
    .reduce((longest, field) => (documentBytes(field[1]) > documentBytes(longest[1]) ? field : longest));

/**
 * Shortens a text at its end and a list by its last elements. In a list with one element, or in an object, shortens the
 * element or the longest field.
 */
function shortened(value: unknown): unknown {
  if (typeof value === 'string') return bounded(value, Math.floor(Buffer.byteLength(value) * 0.75));
  if (Array.isArray(value)) return value.length > 1 ? value.slice(0, fewer(value.length)) : value.map(shortened);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value);
  const [name, field] = longestField(value as Document);
  if (typeof field === 'object' || (typeof field === 'string' && field.length > 200))
    return { ...value, [name]: shortened(field) };
  return Object.fromEntries(fields.slice(0, fewer(fields.length)));
}

const fewer = (count: number): number => Math.min(count - 1, Math.floor(count * 0.9));

const extentOf = (value: unknown): string =>
  Array.isArray(value) ? `${value.length} elements` : `${documentBytes(value)} bytes`;
