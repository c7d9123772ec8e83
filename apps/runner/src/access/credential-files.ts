import { createHash, randomBytes, timingSafeEqual, X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import { existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { TOKEN_PREFIX } from '@flashcore/shared/text';
import { UsageError } from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, readForeignFile } from '@flashcore/shared/files';
import { requireClientName } from './caller.ts';
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
/** The longest validity of a token, the same as a certificate's. */
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
   * Makes a token, replacing an expired token of the same name. Only the caller gets to know it, because its digest is
   * stored instead. Throws UsageError if the name is invalid or still has a valid token.
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

/**
 * A list in a JSON file that is private to its owner. The file is read again whenever it has changed, even by another
 * process, so changes take effect with the next call.
 */
class PrivateList<Entry> {
  readonly #path: string;
  #known = { mark: '', entries: [] as readonly Entry[] };

  constructor(path: string) {
    this.#path = path;
  }

  read(): readonly Entry[] {
    if (!existsSync(this.#path)) return [];
    const { mtimeMs, ino, size } = statSync(this.#path);
    const mark = `${mtimeMs} ${ino} ${size}`;
    if (mark !== this.#known.mark)
      this.#known = { mark, entries: JSON.parse(readFileSync(this.#path, 'utf8')) as Entry[] };
    return this.#known.entries;
  }

  /** Replaces the file in one step. */
  write(entries: readonly Entry[]): void {
    writeFileSync(`${this.#path}.new`, `${JSON.stringify(entries, undefined, 2)}\n`, { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
  }
}

interface RevokedCertificate {
  /** SHA-256 in the form "AB:CD:…". */
  fingerprint: string;
  subject: string;
  revoked: string;
}

/** The list of client certificates that the runner refuses. */
export class RevokedCertificates {
  readonly #list: PrivateList<RevokedCertificate>;

  constructor(dataDirectory: string) {
    this.#list = new PrivateList(join(dataDirectory, 'revoked-certificates.json'));
  }

  has(fingerprint: string): boolean {
    return this.#list.read().some((one) => one.fingerprint === fingerprint);
  }

  /**
   * Adds a certificate from its PEM file and returns its subject. Throws UsageError if the file is not a certificate.
   */
  add(file: string): string {
    const { fingerprint256: fingerprint, subject } = readCertificate(file);
    const shown = subject.replaceAll('\n', ', ');
    const others = this.#list.read().filter((one) => one.fingerprint !== fingerprint);
    this.#list.write([...others, { fingerprint, subject: shown, revoked: new Date().toISOString() }]);
    return shown;
  }
}

function readCertificate(file: string): X509Certificate {
  try {
    return new X509Certificate(readForeignFile(file, HAND_WRITTEN_BYTES));
  } catch (cause) {
    throw new UsageError(
      `${file} is not a certificate (${(cause as Error).message}): name a client that "tls client" made one for, or its file`,
    );
  }
}
