import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../rpc/address.ts';

interface StoredToken {
  name: string;
  /** Of the token, which itself is nowhere. A token has 256 random bits: a slow hash would add nothing. */
  sha256: string;
  created: string;
}

export const tokenPath = (dataDirectory: string): string => join(dataDirectory, 'tokens.json');

const PREFIX = 'fct_';

/** The bearer tokens that let clients in, by their digests. Read anew when the file changes: a token that is revoked opens nothing from then on. */
export class TokenFile {
  readonly #path: string;
  #read = { mark: '', tokens: [] as StoredToken[] };

  constructor(path: string) {
    this.#path = path;
  }

  /** Whose token it is; undefined when it is nobody's. */
  find(token: string): string | undefined {
    const digest = Buffer.from(digestOf(token), 'hex');
    let found: string | undefined;
    // All are compared, so that the time tells nothing of which one fits.
    for (const { name, sha256 } of this.#tokens()) if (timingSafeEqual(Buffer.from(sha256, 'hex'), digest)) found = name;
    return found;
  }

  names(): string[] {
    return this.#tokens().map(({ name }) => name);
  }

  /** Makes a token, which only the caller then knows. Throws UsageError for a name that is taken or none. */
  add(name: string): string {
    if (!/^[\w.@-]{1,64}$/.test(name)) throw new UsageError(`Give a token a name of 1 to 64 letters, digits, ".", "_", "@" and "-": "${name}" is none`);
    if (this.names().includes(name)) throw new UsageError(`Revoke the token of ${name} first, or give this one another name`);
    const token = `${PREFIX}${randomBytes(32).toString('base64url')}`;
    this.#write([...this.#tokens(), { name, sha256: digestOf(token), created: new Date().toISOString() }]);
    return token;
  }

  /** Throws UsageError for an unknown name. */
  revoke(name: string): void {
    if (!this.names().includes(name)) throw new UsageError(`Name a token that "token list" shows: there is none of ${name}`);
    this.#write(this.#tokens().filter((token) => token.name !== name));
  }

  #tokens(): StoredToken[] {
    if (!existsSync(this.#path)) return [];
    const { mtimeMs, ino, size } = statSync(this.#path);
    const mark = `${mtimeMs} ${ino} ${size}`;
    if (mark !== this.#read.mark) this.#read = { mark, tokens: JSON.parse(readFileSync(this.#path, 'utf8')) as StoredToken[] };
    return this.#read.tokens;
  }

  #write(tokens: StoredToken[]): void {
    writeFileSync(`${this.#path}.new`, `${JSON.stringify(tokens, undefined, 2)}\n`, { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
  }
}

const digestOf = (token: string): string => createHash('sha256').update(token).digest('hex');
