/** The runners that a user has logged in to, with addresses and credentials, in a file that only its owner can read. */
import { chmodSync, copyFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import * as z from 'zod';
import type { ClientSecurity } from './client-security.ts';
import { FlashcoreError } from '../contract/errors.ts';
import { HAND_WRITTEN_BYTES, readForeignFile, readForeignText } from '../files/foreign-file.ts';
import { makeFolder, configFolder } from '../files/user-folders.ts';
import { entryOf, withoutEntry } from '../text/entry-of.ts';

const path = z.string().min(1);
const PROFILE = z
  .strictObject({
    address: path.optional(),
    ca: path.optional(),
    cert: path.optional(),
    key: path.optional(),
    token: path.optional(),
  })
  .refine(({ cert, key }) => (cert === undefined) === (key === undefined), 'cert and key must be given together');
const PROFILES = z.record(z.string(), PROFILE);

/** A runner as stored in the file. File names are relative to the file's folder. */
export type StoredProfile = z.output<typeof PROFILE>;

/** A runner to connect to. */
export interface RunnerProfile {
  name: string;
  address: string;
  security: ClientSecurity;
}

/** A login to store. Its files are copied. */
export interface NewProfile {
  name: string;
  address: string;
  ca?: string | undefined;
  cert?: string | undefined;
  key?: string | undefined;
  token?: string | undefined;
}

export const PROFILE_NAME = /^[A-Za-z0-9][\w.-]{0,63}$/;

/**
 * Reads and writes the profiles file: `{ "gpu-box": { "address": "10.0.0.5:50051", "ca": "ca.crt", "cert":
 * "client.crt", "key": "client.key" } }`. `"token"` can replace the last two keys; without an address, the name is the
 * address. All methods refuse a file that others can read or that has another format, with INVALID_REQUEST.
 */
export class RunnerProfiles {
  /** $FLASHCORE_CONFIG, else runners.json in the user's configuration folder. */
  readonly file: string;
  readonly #folder: string;

  constructor(environment: NodeJS.ProcessEnv) {
    this.file = environment['FLASHCORE_CONFIG'] || join(configFolder(environment), 'runners.json');
    this.#folder = dirname(this.file);
  }

  /** All profiles by name. */
  list(): Record<string, StoredProfile> {
    const found = statSync(this.file, { throwIfNoEntry: false });
    if (!found) return {};
    requirePrivate(this.file, found.mode);
    return this.#parse();
  }

  /** The runner with this name, else the runner with this address; undefined if the file has no such runner. */
  find(text: string): RunnerProfile | undefined {
    const profiles = this.list();
    const name = Object.hasOwn(profiles, text)
      ? text
      : Object.keys(profiles).find((one) => entryOf(profiles, one)!.address === text);
    if (name === undefined) return undefined;
    const { address = name, ca, cert, key, token } = entryOf(profiles, name)!;
    const read = (file: string | undefined): Buffer | undefined =>
      file === undefined ? undefined : this.#readNamed(resolve(this.#folder, file));
    return { name, address, security: { authority: read(ca), certificate: read(cert), key: read(key), token } };
  }

  /** Saves a runner; replaces an existing one with the same name. */
  save({ name, address, ca, cert, key, token }: NewProfile): void {
    const others = this.list();
    const folder = this.#filesOf(name);
    makeFolder(folder);
    chmodSync(folder, 0o700);
    const keep = (from: string | undefined, file: string): string | undefined => {
      const to = join(folder, file);
      if (from === undefined) {
        rmSync(to, { force: true });
        return undefined;
      }
      if (resolve(from) !== to) {
        // Create the file with owner-only permissions before its first byte is written.
        writeFileSync(to, '', { mode: 0o600 });
        copyFileSync(from, to);
      }
      chmodSync(to, 0o600);
      return relative(this.#folder, to);
    };
    this.#write({
      ...others,
      [name]: { address, ca: keep(ca, 'ca.crt'), cert: keep(cert, 'client.crt'), key: keep(key, 'client.key'), token },
    });
  }

  /** Deletes a runner and its certificates. Returns whether it was known. */
  remove(name: string): boolean {
    const profiles = this.list();
    if (!Object.hasOwn(profiles, name)) return false;
    this.#write(withoutEntry(profiles, name));
    if (PROFILE_NAME.test(name)) rmSync(this.#filesOf(name), { recursive: true, force: true });
    return true;
  }

  #filesOf(name: string): string {
    return join(this.#folder, 'runners', name);
  }

  #write(profiles: Record<string, StoredProfile>): void {
    makeFolder(this.#folder);
    const temporary = `${this.file}.new`;
    rmSync(temporary, { force: true });
    writeFileSync(temporary, `${JSON.stringify(profiles, undefined, 2)}\n`, { mode: 0o600, flag: 'wx' });
    renameSync(temporary, this.file);
  }

  #parse(): Record<string, StoredProfile> {
    let json: unknown;
    try {
      json = JSON.parse(readForeignText(this.file, HAND_WRITTEN_BYTES));
    } catch (cause) {
      throw refused(this.file, `it is not JSON: ${(cause as Error).message}`, cause);
    }
    const { success, data, error } = PROFILES.safeParse(json);
    if (!success)
      throw refused(
        this.file,
        error.issues.map(({ path: key, message }) => `${key.join('.')}: ${message}`).join('; '),
        error,
      );
    return data;
  }

  #readNamed(named: string): Buffer {
    try {
      return readForeignFile(named, HAND_WRITTEN_BYTES);
    } catch (cause) {
      throw refused(this.file, `it names ${named}, which can't be read: ${(cause as Error).message}`, cause);
    }
  }
}

/** Refuses a file with a secret if others could read it. Errors: INVALID_REQUEST. */
export function requirePrivate(file: string, mode = statSync(file).mode): void {
  if (process.platform !== 'win32' && (mode & 0o077) !== 0)
    throw refused(file, `it must be its owner's alone, because it lets in whoever reads it: chmod 600 ${file}`);
}

const refused = (file: string, why: string, cause?: unknown): FlashcoreError =>
  new FlashcoreError('INVALID_REQUEST', { path: file }, `Correct ${file}: ${why}`, { cause });
