/** Digests, which name files. Only this file turns a text into a digest. */
import { createHash, type Hash } from 'node:crypto';
import { invalidRequest } from './errors.ts';

declare const parsed: unique symbol;

/**
 * SHA-256 as 64 lower-case hexadecimal digits. Stored files are named after digests, so an unchecked text must never be
 * used as one. Only the functions of this file create a value of this type.
 */
export type Sha256 = string & { readonly [parsed]: 'sha256' };

/** The required form of a digest field, for error texts. */
export const SHA256_FORM = 'must be a SHA-256 of 64 lower-case hexadecimal digits';

export const isSha256 = (text: unknown): text is Sha256 => typeof text === 'string' && /^[0-9a-f]{64}$/.test(text);

/** Parses a field of a request. Errors: INVALID_REQUEST, which names the field. */
export function parseSha256(text: string, field = 'sha256'): Sha256 {
  if (isSha256(text)) return text;
  const found = JSON.stringify(text.slice(0, 80));
  throw invalidRequest({ field, description: `${SHA256_FORM}, got ${found}${text.length > 80 ? '…' : ''}` });
}

/** The digest of everything that was added to a hash. Ends the hash. */
// eslint-disable-next-line no-restricted-syntax -- a digest from a hash needs no check
export const digestOf = (hash: Hash): Sha256 => hash.digest('hex') as Sha256;

export const sha256Of = (bytes: Uint8Array | string): Sha256 => digestOf(createHash('sha256').update(bytes));
