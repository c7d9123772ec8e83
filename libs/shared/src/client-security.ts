/** How a client proves who it is to a runner beyond this machine, and knows the runner. */
import { readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { type ChannelCredentials, credentials, Metadata } from '@grpc/grpc-js';
import { z } from 'zod';
import { FlashcoreError } from './errors.ts';

/** PEM texts, and a token. With a certificate and its key the client is known by them, with a token by that. */
export interface ClientSecurity {
  /** Certificate of the authority that signed the runner's; undefined: one of the system's. */
  authority?: Buffer | undefined;
  certificate?: Buffer | undefined;
  key?: Buffer | undefined;
  token?: string | undefined;
}

/** Plain text without security: on this machine, or within the user's own tunnel. */
export function channelCredentials(security: ClientSecurity | undefined): ChannelCredentials {
  if (!security) return credentials.createInsecure();
  const { authority, certificate, key, token } = security;
  const tls = credentials.createSsl(authority ?? null, key ?? null, certificate ?? null);
  if (token === undefined) return tls;
  const withToken = credentials.createFromMetadataGenerator((_context, done) => {
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${token}`);
    done(null, metadata);
  });
  return credentials.combineChannelCredentials(tls, withToken);
}

const path = z.string().min(1);
const RUNNERS = z.record(z.string(), z.strictObject({ ca: path.optional(), cert: path.optional(), key: path.optional(), token: z.string().min(1).optional() })
  .refine(({ cert, key }) => (cert === undefined) === (key === undefined), 'cert and key must be given together'));

/** $FLASHCORE_CONFIG, else runners.json in the user's configuration folder. */
export function configPath(environment: NodeJS.ProcessEnv): string {
  return environment['FLASHCORE_CONFIG'] || join(environment['XDG_CONFIG_HOME'] || join(environment['HOME'] || homedir(), '.config'), 'flashcore', 'runners.json');
}

/**
 * What the configuration file says of a runner: `{ "gpu-box:50051": { "ca": "ca.crt", "cert": "client.crt", "key": "client.key" } }`, or `"token"` instead of the last two;
 * file names are relative to its folder. Undefined where it says nothing. Errors: INVALID_REQUEST for a file that others can read, or that is none of this kind.
 */
export function readClientSecurity(address: string, environment: NodeJS.ProcessEnv): ClientSecurity | undefined {
  const file = configPath(environment);
  const found = statSync(file, { throwIfNoEntry: false });
  if (!found) return undefined;
  if (process.platform !== 'win32' && (found.mode & 0o077) !== 0) throw refused(file, `it must be its owner's alone, because it lets in whoever reads it: chmod 600 ${file}`);
  const entry = parse(file)[address];
  if (!entry) return undefined;
  const read = (name: string | undefined): Buffer | undefined => (name === undefined ? undefined : readNamed(file, resolve(dirname(file), name)));
  return { authority: read(entry.ca), certificate: read(entry.cert), key: read(entry.key), token: entry.token };
}

function parse(file: string): z.output<typeof RUNNERS> {
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw refused(file, `it is no JSON: ${(cause as Error).message}`, cause);
  }
  const { success, data, error } = RUNNERS.safeParse(json);
  if (!success) throw refused(file, error.issues.map(({ path: key, message }) => `${key.join('.')}: ${message}`).join('; '), error);
  return data;
}

function readNamed(file: string, named: string): Buffer {
  try {
    return readFileSync(named);
  } catch (cause) {
    throw refused(file, `it names ${named}, which can't be read: ${(cause as Error).message}`, cause);
  }
}

const refused = (file: string, why: string, cause?: unknown): FlashcoreError => new FlashcoreError('INVALID_REQUEST', { path: file }, `Correct ${file}: ${why}`, { cause });
