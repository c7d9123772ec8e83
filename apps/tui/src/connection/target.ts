import type { ClientSecurity } from '@flashcore/shared/client';
import { RunnerProfiles, requirePrivate } from '@flashcore/shared/logins';
import { didYouMean } from '@flashcore/shared/text';
import { isSshAddress, parseSshAddress } from '../remote/ssh-address.ts';
import { UsageError } from '../usage-error.ts';
import { readNamed } from '../named-files.ts';
import { parseAddress } from './address.ts';

/** --tls-ca, --tls-cert, --tls-key: PEM files. */
export interface TlsFlags {
  readonly tlsCa?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

/** A runner that was asked for, and how it is reached. */
export interface Target {
  /** Of the login; undefined where there was none. */
  readonly name: string | undefined;
  readonly address: string;
  /** Undefined: plain text. */
  readonly security: ClientSecurity | undefined;
}

/** "gpu (gpu01:50051)" of a login, else the address. */
export const describeTarget = ({ name, address }: Pick<Target, 'name' | 'address'>): string =>
  name === undefined || name === address ? address : `${name} (${address})`;

export const hasTlsFlags = ({ tlsCa, tlsCert, tlsKey }: TlsFlags): boolean =>
  (tlsCa ?? tlsCert ?? tlsKey) !== undefined;

/**
 * Finds a runner by the name of a login or by its address. Flags, then FLASHCORE_TLS_CA, _CERT, _KEY and
 * FLASHCORE_TOKEN, come before what the login kept.
 * Errors: UsageError; INVALID_REQUEST for a file that is wrong, or whose secret others can read.
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

/** Whether it is a socket file, here or behind ssh: TLS is not spoken there. */
export const reachesSocket = (address: string): boolean =>
  address.startsWith('unix:') || (isSshAddress(address) && parseSshAddress(address).runner.kind === 'socket');

function knownNames(asked: string, names: readonly string[]): string {
  if (names.length === 0) return 'No runner has a name here: fa-tui login gives one';
  return `fa-tui login knows ${names.join(', ')}${didYouMean(asked, names)}`;
}

/** What flags and environment say of TLS; undefined when nothing. */
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
    // The client's own certificate stands in place of a token, and the other way round.
    ...(tlsCert !== undefined &&
      key !== undefined && { certificate: read('--tls-cert', tlsCert), key, token: undefined }),
    ...(token !== undefined && { token }),
  };
}

/** The files that flags, else the environment, name. Throws UsageError for a certificate without its key. */
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
