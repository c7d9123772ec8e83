/** The system's ssh: its arguments, and what it makes of a host. */
import { execFile } from 'node:child_process';
import { withoutSecrets } from '@flashcore/shared/files';
import { UsageError } from '../usage-error.ts';
import { sshError } from './ssh-problem.ts';
import type { SshAddress } from './ssh-address.ts';

const CONFIG_LIMIT_MS = 10_000;
/** Where the configuration says nothing: TCP alone would try for two minutes. */
const CONNECT_TIMEOUT_S = 20;
const MAX_CONFIG_BYTES = 256 * 1024;

/** What ssh's configuration says of a host, as far as a tunnel needs it. */
export interface SshHost {
  readonly address: SshAddress;
  /** Arguments that all commands for this host share, up to the host itself. */
  readonly options: readonly string[];
  readonly destination: string;
  /** Existing or not: files that may have a certificate of the user. */
  readonly certificates: readonly string[];
}

/**
 * Asks ssh for its configuration of a host ($FLASHCORE_SSH_CONFIG: of that file in place of the user's); nothing is
 * connected yet. Errors: RUNNER_UNREACHABLE where there is no ssh, or its configuration is faulty.
 */
export async function sshHost(address: SshAddress, environment: NodeJS.ProcessEnv): Promise<SshHost> {
  const file = environment['FLASHCORE_SSH_CONFIG'];
  if (file !== undefined && file.startsWith('-')) throw new UsageError(`$FLASHCORE_SSH_CONFIG: ${file} must be a file`);
  const base = [
    ...(file ? ['-F', file] : []),
    ...(address.port === undefined ? [] : ['-p', String(address.port)]),
    ...(address.user === undefined ? [] : ['-l', address.user]),
  ];
  const config = await configOf([...base, '-G', '--', address.host], address, environment);
  const values = (key: string): string[] =>
    [...config.matchAll(new RegExp(`^${key} (.+)$`, 'gim'))].map(([, value]) => value!);
  const persists = !['no', undefined].includes(values('controlpersist')[0]);
  return {
    address,
    options: [
      ...base,
      '-T',
      ...(values('connecttimeout')[0] === 'none' ? ['-o', `ConnectTimeout=${CONNECT_TIMEOUT_S}`] : []),
      // A dead network shows within a minute and a half, also after this program was killed.
      ...['-o', 'ServerAliveInterval=30', '-o', 'ServerAliveCountMax=3'],
      ...['-o', 'ForwardAgent=no', '-o', 'ForwardX11=no', '-o', 'PermitLocalCommand=no'],
      // A master that is there is used. One of ours would take others' sessions with it, unless it stays by itself.
      ...(persists ? [] : ['-o', 'ControlMaster=no']),
    ],
    destination: address.host,
    certificates: [...values('certificatefile'), ...values('identityfile').map((key) => `${key}-cert.pub`)],
  };
}

/**
 * How an ssh is started that may ask a person, or may not: then it has neither terminal nor dialog. BatchMode alone
 * does not say so to the ssh of a ProxyJump.
 */
export const sshProcess = (
  environment: NodeJS.ProcessEnv,
  mayAsk: boolean,
): { readonly env: NodeJS.ProcessEnv; readonly detached: boolean } => ({
  env: { ...withoutSecrets(environment), ...(mayAsk ? {} : { SSH_ASKPASS_REQUIRE: 'never' }) },
  // A session of its own has no terminal.
  detached: !mayAsk,
});

function configOf(args: readonly string[], address: SshAddress, environment: NodeJS.ProcessEnv): Promise<string> {
  // Its `Match exec` runs the user's commands.
  const env = withoutSecrets(environment);
  return new Promise((resolve, reject) => {
    execFile('ssh', args, { env, timeout: CONFIG_LIMIT_MS, maxBuffer: MAX_CONFIG_BYTES }, (error, stdout, stderr) => {
      if (!error) return resolve(stdout);
      const spawnError = typeof error.code === 'string' ? (error as NodeJS.ErrnoException) : undefined;
      reject(sshError({ address, stderr, spawnError }));
    });
  });
}
