import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { join } from 'node:path';
import { UsageError } from '../usage-error.ts';
import { requireClientName } from './caller.ts';
import { PrivateList } from './private-list.ts';
import { DEFAULT_ROLE, type Role } from './roles.ts';

/** Whose token it is, and what it lets them do. */
export interface TokenHolder {
  name: string;
  role: Role;
}

interface StoredToken {
  name: string;
  /** Absent from tokens older than roles. */
  role?: Role;
  /** Of the token, which itself is nowhere. A token has 256 random bits: a slow hash would add nothing. */
  sha256: string;
  created: string;
  /** Absent from tokens older than limits. */
  expires?: string;
}

/** What the owner of a token may do, and for how long. */
export interface TokenTerms {
  role?: Role;
  /** From now on; default: DEFAULT_TOKEN_DAYS. */
  days?: number;
}

export const DEFAULT_TOKEN_DAYS = 365;
/** As long as a certificate lasts. */
export const MAX_TOKEN_DAYS = 825;
const DAY_MS = 86_400_000;

const PREFIX = 'fct_';

/**
 * The bearer tokens that let clients in, by their digests, in tokens.json of the data directory. One that is revoked
 * opens nothing from the next call on.
 */
export class TokenFile {
  readonly #list: PrivateList<StoredToken>;
  readonly #nowMs: () => number;

  /** `nowMs`: the time of day; default: the machine's. */
  constructor(dataDirectory: string, nowMs: () => number = Date.now) {
    this.#list = new PrivateList(join(dataDirectory, 'tokens.json'));
    this.#nowMs = nowMs;
  }

  /** Undefined when it is nobody's, or no longer. */
  find(token: string): TokenHolder | undefined {
    const digest = Buffer.from(digestOf(token), 'hex');
    let found: StoredToken | undefined;
    // All are compared, so that the time tells nothing of which one fits.
    for (const stored of this.#list.read())
      if (timingSafeEqual(Buffer.from(stored.sha256, 'hex'), digest)) found = stored;
    if (found?.expires !== undefined && this.#nowMs() >= Date.parse(found.expires)) return undefined;
    return found && { name: found.name, role: found.role ?? DEFAULT_ROLE };
  }

  list(): (TokenHolder & { created: string; expires: string | undefined })[] {
    return this.#list
      .read()
      .map(({ name, role = DEFAULT_ROLE, created, expires }) => ({ name, role, created, expires }));
  }

  /** Makes a token, which only the caller then knows. Throws UsageError for a name that is taken or none. */
  add(name: string, { role = DEFAULT_ROLE, days = DEFAULT_TOKEN_DAYS }: TokenTerms = {}): string {
    requireClientName(name);
    if (this.#list.read().some((token) => token.name === name))
      throw new UsageError(`${name} has a token: revoke it first, or give this one another name`);
    const token = `${PREFIX}${randomBytes(32).toString('base64url')}`;
    this.#list.write([
      ...this.#list.read(),
      {
        name,
        role,
        sha256: digestOf(token),
        created: new Date(this.#nowMs()).toISOString(),
        expires: new Date(this.#nowMs() + days * DAY_MS).toISOString(),
      },
    ]);
    return token;
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
