import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { join } from 'node:path';
import { TOKEN_PREFIX } from '@flashcore/shared/text';
import { UsageError } from '../usage-error.ts';
import { requireClientName } from './caller.ts';
import { PrivateList } from './private-list.ts';
import { DEFAULT_ROLE, type Role } from './roles.ts';

/** The owner of a token and what it allows. */
export interface TokenHolder {
  name: string;
  role: Role;
}

interface StoredToken {
  name: string;
  /** Absent from tokens older than roles. */
  role?: Role;
  /**
   * Digest of the token; the token itself is not stored. A token has 256 random bits, so a slow hash would add nothing.
   */
  sha256: string;
  created: string;
  /** Absent from tokens older than limits. */
  expires?: string;
}

/** Role and lifetime of a token. */
export interface TokenTerms {
  role?: Role;
  /** Hours from now; default: DEFAULT_TOKEN_DAYS. */
  hours?: number | undefined;
}

export const DEFAULT_TOKEN_DAYS = 365;
/** The lifetime of a certificate. */
export const MAX_TOKEN_DAYS = 825;
const HOUR_MS = 3_600_000;

/**
 * The bearer tokens of clients, stored as digests in tokens.json of the data directory. A revoked token is refused from
 * the next call on.
 */
export class TokenFile {
  readonly #list: PrivateList<StoredToken>;
  readonly #nowMs: () => number;

  /** `nowMs`: the time of day; default: the machine's. */
  constructor(dataDirectory: string, nowMs: () => number = Date.now) {
    this.#list = new PrivateList(join(dataDirectory, 'tokens.json'));
    this.#nowMs = nowMs;
  }

  /** undefined if the token is unknown or has expired. */
  find(token: string): TokenHolder | undefined {
    const digest = Buffer.from(digestOf(token), 'hex');
    let found: StoredToken | undefined;
    // Compares all digests, so that the time reveals nothing about which one matches.
    for (const stored of this.#list.read())
      if (timingSafeEqual(Buffer.from(stored.sha256, 'hex'), digest)) found = stored;
    return found && !this.#hasExpired(found) ? { name: found.name, role: found.role ?? DEFAULT_ROLE } : undefined;
  }

  list(): (TokenHolder & { created: string; expires: string | undefined })[] {
    return this.#list
      .read()
      .map(({ name, role = DEFAULT_ROLE, created, expires }) => ({ name, role, created, expires }));
  }

  /**
   * Makes a token, which only the caller then knows, in place of an expired one of this name. Throws UsageError for a
   * name that is invalid or whose token is valid.
   */
  add(name: string, { role = DEFAULT_ROLE, hours = DEFAULT_TOKEN_DAYS * 24 }: TokenTerms = {}): string {
    requireClientName(name);
    const others = this.#list.read().filter((token) => token.name !== name || !this.#hasExpired(token));
    if (others.some((token) => token.name === name))
      throw new UsageError(`${name} has a token: revoke it first, or give this one another name`);
    const token = `${TOKEN_PREFIX}${randomBytes(32).toString('base64url')}`;
    this.#list.write([
      ...others,
      {
        name,
        role,
        sha256: digestOf(token),
        created: new Date(this.#nowMs()).toISOString(),
        expires: new Date(this.#nowMs() + hours * HOUR_MS).toISOString(),
      },
    ]);
    return token;
  }

  #hasExpired({ expires }: StoredToken): boolean {
    return expires !== undefined && this.#nowMs() >= Date.parse(expires);
  }

  /** Throws UsageError for an unknown name. */
  revoke(name: string): void {
    const others = this.#list.read().filter((token) => token.name !== name);
    if (others.length === this.#list.read().length)
      throw new UsageError(`${name} has no token; "token list" shows those that there are`);
    this.#list.write(others);
  }
}

const digestOf = (token: string): string => createHash('sha256').update(token).digest('hex');
