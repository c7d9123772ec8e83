import path from 'node:path';
import type { ClientSecurity } from '@flashcore/shared/client';
import { RunnerProfiles, requirePrivate } from '@flashcore/shared/logins';
import { didYouMean } from '@flashcore/shared/text';
import { isSshAddress, parseSshAddress } from '../remote/ssh-address.ts';
import { readNamed } from '../named-files.ts';
import { UsageError } from '../exit-code.ts';

/** --tls-ca, --tls-cert, --tls-key: PEM files. */
export interface TlsFlags {
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

/** A requested runner, and how to reach it. */
export interface Target {
  /** Name of the login; undefined if there is none. */
  readonly name: string | undefined;
  readonly address: string;
  /** Undefined for a connection without TLS. */
  readonly security: ClientSecurity | undefined;
}

/** Text such as "gpu (gpu01:50051)" for a login, or else the address. */
export const describeTarget = ({ name, address }: Pick<Target, 'name' | 'address'>): string =>
  name === undefined || name === address ? address : `${name} (${address})`;

export const hasTlsFlags = ({ tlsCa, tlsCert, tlsKey }: TlsFlags): boolean =>
  (tlsCa ?? tlsCert ?? tlsKey) !== undefined;

/**
 * Finds a runner by its address or by the name of a login. Flags, and after them FLASHCORE_TLS_CA, _CERT, _KEY and
 * FLASHCORE_TOKEN, take precedence over the stored login. Errors: UsageError; INVALID_REQUEST for an invalid file or a
 * secret that others can read.
 */
export function resolveTarget(asked: string, flags: TlsFlags, environment: NodeJS.ProcessEnv): Target {
  const profiles = new RunnerProfiles(environment);
  const profile = profiles.find(asked);
  const address = profile?.address ?? parseAddress(asked, `. ${knownNames(asked, Object.keys(profiles.list()))}`);
  if (reachesSocket(address)) {
    if (hasTlsFlags(flags))
      throw new UsageError(`${address}: takes no --tls options, a socket file is reached without TLS`);
    return { name: profile?.name, address, security: undefined };
  }
  const given = givenSecurity(flags, environment);
  return { name: profile?.name, address, security: given || profile ? { ...profile?.security, ...given } : undefined };
}

/** True if the address is a socket file, here or behind ssh. Sockets do not use TLS. */
export const reachesSocket = (address: string): boolean =>
  address.startsWith('unix:') || (isSshAddress(address) && parseSshAddress(address).runner.kind === 'socket');

function knownNames(asked: string, names: readonly string[]): string {
  if (names.length === 0) return 'No runner has a name here: fa-tui login gives one';
  return `fa-tui login knows ${names.join(', ')}${didYouMean(asked, names)}`;
}

/** TLS settings from flags and environment; undefined if there are none. */
export function givenSecurity(flags: TlsFlags, environment: NodeJS.ProcessEnv): ClientSecurity | undefined {
  const files = tlsFiles(flags, environment);
  const token = environment['FLASHCORE_TOKEN'] || undefined;
  if (!hasTlsFlags(files) && token === undefined) return undefined;
  const { tlsCa, tlsCert, tlsKey } = files;
  const read = (option: '--tls-ca' | '--tls-cert' | '--tls-key', file: string): Buffer =>
    readNamed(`${option} (or $FLASHCORE_${option.slice(2).replace('-', '_').toUpperCase()})`, file);
  const key = tlsKey === undefined ? undefined : read('--tls-key', tlsKey);
  if (tlsKey !== undefined) requirePrivate(tlsKey);
  return {
    ...(tlsCa !== undefined && { authority: read('--tls-ca', tlsCa) }),
    // A given certificate replaces the login's token, and a given token replaces the login's certificate.
    ...(tlsCert !== undefined &&
      key !== undefined && { certificate: read('--tls-cert', tlsCert), key, token: undefined }),
    ...(token !== undefined && { token }),
  };
}

/**
 * The files named by flags or, without flags, by the environment. Throws UsageError for a certificate without its key.
 */
export function tlsFiles(flags: TlsFlags, environment: NodeJS.ProcessEnv): TlsFlags {
  const file = (given: string | undefined, variable: string): string | undefined =>
    given ?? (environment[variable] || undefined);
  const tlsCa = file(flags.tlsCa, 'FLASHCORE_TLS_CA');
  const tlsCert = file(flags.tlsCert, 'FLASHCORE_TLS_CERT');
  const tlsKey = file(flags.tlsKey, 'FLASHCORE_TLS_KEY');
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw new UsageError(`${tlsCert === undefined ? '--tls-key: needs --tls-cert' : '--tls-cert: needs --tls-key'}`);
  return {
    ...(tlsCa !== undefined && { tlsCa }),
    ...(tlsCert !== undefined && { tlsCert }),
    ...(tlsKey !== undefined && { tlsKey }),
  };
}

const HOST_AND_PORT = /^(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?):(\d{1,5})$/i;

/**
 * A runner's address in RunnerClient's form: "host:port", "unix:" with an absolute path, or "ssh://…". Throws
 * UsageError, which ends with `hint`.
 */
export function parseAddress(text: string, hint = ''): string {
  if (text.startsWith('unix:') && text.length > 'unix:'.length)
    return `unix:${path.resolve(text.slice('unix:'.length).replace(/^\/\//, ''))}`;
  if (isSshAddress(text)) return parseSshAddress(text).text;
  const port = Number(HOST_AND_PORT.exec(text)?.[1] ?? 0);
  if (port >= 1 && port <= 65_535) return text;
  throw new UsageError(`Runner "${text}": must be host:port (127.0.0.1:50051), ssh://host or unix:/path${hint}`);
}
