/** Digests, which name files: a text becomes one only here. */
import { createHash, type Hash } from 'node:crypto';
import { invalidRequest } from './errors.ts';

declare const parsed: unique symbol;

/**
 * SHA-256 in 64 lower-case hexadecimal digits. Files are kept under it, so no foreign text may pass for one unread:
 * only the functions of this file make it.
 */
export type Sha256 = string & { readonly [parsed]: 'sha256' };

/** What a field that takes a digest must be, for an error's text. */
export const SHA256_FORM = 'must be a SHA-256 of 64 lower-case hexadecimal digits';

export const isSha256 = (text: unknown): text is Sha256 => typeof text === 'string' && /^[0-9a-f]{64}$/.test(text);

/** Reads a request's field. Errors: INVALID_REQUEST, which names the field. */
export function parseSha256(text: string, field = 'sha256'): Sha256 {
  if (isSha256(text)) return text;
  const found = JSON.stringify(text.slice(0, 80));
  throw invalidRequest({ field, description: `${SHA256_FORM}, is ${found}${text.length > 80 ? '…' : ''}` });
}

/** The digest of what a hash was given; ends the hash. */
// eslint-disable-next-line no-restricted-syntax -- what a hash gives needs no reading
export const digestOf = (hash: Hash): Sha256 => hash.digest('hex') as Sha256;

export const sha256Of = (bytes: Uint8Array | string): Sha256 => digestOf(createHash('sha256').update(bytes));
