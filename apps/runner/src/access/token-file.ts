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
}

const PREFIX = 'fct_';

/**
 * The bearer tokens that let clients in, by their digests, in tokens.json of the data directory. One that is revoked
 * opens nothing from the next call on.
 */
export class TokenFile {
  readonly #list: PrivateList<StoredToken>;

  constructor(dataDirectory: string) {
    this.#list = new PrivateList(join(dataDirectory, 'tokens.json'));
  }

  /** Undefined when it is nobody's. */
  find(token: string): TokenHolder | undefined {
    const digest = Buffer.from(digestOf(token), 'hex');
    let found: StoredToken | undefined;
    // All are compared, so that the time tells nothing of which one fits.
    for (const stored of this.#list.read())
      if (timingSafeEqual(Buffer.from(stored.sha256, 'hex'), digest)) found = stored;
    return found && { name: found.name, role: found.role ?? DEFAULT_ROLE };
  }

  list(): (TokenHolder & { created: string })[] {
    return this.#list.read().map(({ name, role = DEFAULT_ROLE, created }) => ({ name, role, created }));
  }

  /** Makes a token, which only the caller then knows. Throws UsageError for a name that is taken or none. */
  add(name: string, role: Role = DEFAULT_ROLE): string {
    requireClientName(name);
    if (this.#list.read().some((token) => token.name === name))
      throw new UsageError(`${name} has a token: revoke it first, or give this one another name`);
    const token = `${PREFIX}${randomBytes(32).toString('base64url')}`;
    this.#list.write([
      ...this.#list.read(),
      { name, role, sha256: digestOf(token), created: new Date().toISOString() },
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
