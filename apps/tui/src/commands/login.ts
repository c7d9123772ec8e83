import path from 'node:path';
import { PROFILE_NAME, RunnerProfiles, type StoredProfile } from '@flashcore/shared/logins';
import { connectTo } from '../connection/connect.ts';
import { givenSecurity, reachesSocket, tlsFiles, type TlsFlags, parseAddress } from '../connection/target.ts';
import { tableOf } from '../present/blocks.ts';
import { isSshAddress, parseSshAddress } from '../remote/ssh-address.ts';
import type { CommandContext } from './context.ts';
import { readSecret } from './hidden-input.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

/**
 * `fa-tui login <address>`: checks that the runner accepts this client, then stores the login. The token is never an
 * argument, because everybody on the machine can see the command line.
 */
export async function login(
  addressText: string,
  options: TlsFlags & { readonly name?: string },
  context: CommandContext,
): Promise<ExitCode> {
  const { environment } = context.surroundings;
  const address = parseAddress(addressText);
  if (reachesSocket(address))
    throw new UsageError(
      `${address} needs no login, because everyone who may open the socket is accepted: give host:port of a runner that serves TLS`,
    );
  const name = options.name ?? nameOf(address);
  if (!PROFILE_NAME.test(name))
    throw new UsageError(`--name ${name}: must be of letters, digits, ".", "_" and "-", at most 64`);
  const { tlsCa, tlsCert, tlsKey } = tlsFiles(options, environment);
  const given = givenSecurity(options, environment);
  const token = tlsCert === undefined ? (given?.token ?? (await askToken(address, context))) : undefined;
  const security = { ...given, token };
  const { client, close } = await connectTo(
    { name: undefined, address, security },
    { environment, mayAsk: context.mayAsk },
  );
  close();
  const absolute = (file: string | undefined): string | undefined => file && path.resolve(file);
  const profiles = new RunnerProfiles(environment);
  profiles.save({ name, address, ca: absolute(tlsCa), cert: absolute(tlsCert), key: absolute(tlsKey), token });
  const { caller } = client;
  context.report([
    `logged in to ${address} (${client.host.hostName})${caller ? ` as ${caller.name}, ${caller.role}` : ''}`,
  ]);
  context.note(`Kept in ${profiles.file}. Use it: fa-tui --runner ${name}   or: export FLASHCORE_RUNNER=${name}`);
  return ExitCode.PASSED;
}

async function askToken(address: string, { surroundings: { stdin, stderr } }: CommandContext): Promise<string> {
  const token = await readSecret(`Token for ${address}: `, stdin, stderr);
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new UsageError(
    `${token === '' ? 'No token and no certificate was given' : 'What was given is not a token'}: type a token, or put it on stdin (on the runner's host: flashcore-runner token add <name>), or give --tls-cert with --tls-key`,
  );
}

/** The host of an address. "-" replaces characters that are not allowed in a login's name. */
const nameOf = (address: string): string =>
  (isSshAddress(address) ? parseSshAddress(address).host : address)
    .replace(/:\d+$/, '')
    .replace(/[^\w.-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+|-$/g, '') || 'runner';

/** `fa-tui logout <name>`: forgets the login. The credential stays valid until the host's operator revokes it there. */
export async function logout(name: string, context: CommandContext): Promise<ExitCode> {
  const profiles = new RunnerProfiles(context.surroundings.environment);
  if (!profiles.remove(name)) throw new UsageError(`Unknown runner "${name}"; fa-tui runners lists them`);
  context.report([`logged out of ${name}`]);
  context.note(
    'Its credential is gone from this machine; on the host, "flashcore-runner token revoke" or "tls revoke" ends it for good.',
  );
  return Promise.resolve(ExitCode.PASSED);
}

/** `fa-tui runners`: prints names, addresses and kinds of credential, but never a credential. */
export async function listRunners(context: CommandContext): Promise<ExitCode> {
  const profiles = new RunnerProfiles(context.surroundings.environment).list();
  const rows = Object.entries(profiles).map(([name, profile]) => ({
    name,
    address: profile.address ?? name,
    credential: credentialOf(profile),
  }));
  if (context.options.json) context.document(rows);
  else if (rows.length === 0) context.report(['no runner logged in to: fa-tui login <address>']);
  else
    context.show([
      tableOf(
        [
          { title: 'name', cell: ({ name }) => name },
          { title: 'address', shrinkTo: 12, cell: ({ address }) => address },
          { title: 'credential', cell: ({ credential }) => credential },
        ],
        rows,
      ),
    ]);
  return Promise.resolve(ExitCode.PASSED);
}

function credentialOf({ token, cert }: StoredProfile): string {
  if (token !== undefined) return 'token';
  return cert === undefined ? 'none' : 'certificate';
}
