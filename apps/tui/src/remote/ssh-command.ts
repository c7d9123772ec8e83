/** The system's ssh: its arguments, and its configuration for a host. */
import { execFile } from 'node:child_process';
import { withoutSecrets } from '@flashcore/shared/files';
import { sshError } from './ssh-problem.ts';
import type { SshAddress } from './ssh-address.ts';
import { UsageError } from '../exit-code.ts';

const CONFIG_LIMIT_MS = 10_000;
/** Used if the configuration sets no timeout, because TCP would try for two minutes. */
const CONNECT_TIMEOUT_S = 20;
const MAX_CONFIG_BYTES = 256 * 1024;

/** The part of ssh's configuration for a host that a tunnel needs. */
export interface SshHost {
  readonly address: SshAddress;
  /** Arguments that precede the host, in every command for this host. */
  readonly options: readonly string[];
  readonly destination: string;
  /** Files that may contain a certificate of the user. They need not exist. */
  readonly certificates: readonly string[];
}

/**
 * Reads ssh's configuration for a host, without connecting. $FLASHCORE_SSH_CONFIG can name another configuration file.
 * Errors: RUNNER_UNREACHABLE if ssh is missing or its configuration is faulty.
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
      // ssh notices a dead network within a minute and a half, even if this program was killed.
      ...['-o', 'ServerAliveInterval=30', '-o', 'ServerAliveCountMax=3'],
      ...['-o', 'ForwardAgent=no', '-o', 'ForwardX11=no', '-o', 'PermitLocalCommand=no'],
      // An existing master connection is used, but none is started unless the configuration lets it persist: if ours
      // ended, it would end the sessions of other programs that use it.
      ...(persists ? [] : ['-o', 'ControlMaster=no']),
    ],
    destination: address.host,
    certificates: [...values('certificatefile'), ...values('identityfile').map((key) => `${key}-cert.pub`)],
  };
}

/**
 * Process options for an ssh that may or may not ask a person. If it may not, it gets neither a terminal nor a dialog,
 * because BatchMode does not apply to the ssh of a ProxyJump.
 */
export const sshProcess = (
  environment: NodeJS.ProcessEnv,
  mayAsk: boolean,
): { readonly env: NodeJS.ProcessEnv; readonly detached: boolean } => ({
  env: { ...withoutSecrets(environment), ...(mayAsk ? {} : { SSH_ASKPASS_REQUIRE: 'never' }) },
  // A process in its own session has no terminal.
  detached: !mayAsk,
});

function configOf(args: readonly string[], address: SshAddress, environment: NodeJS.ProcessEnv): Promise<string> {
  // Secrets are removed, because ssh's `Match exec` runs the user's commands.
  const env = withoutSecrets(environment);
  return new Promise((resolve, reject) => {
    execFile('ssh', args, { env, timeout: CONFIG_LIMIT_MS, maxBuffer: MAX_CONFIG_BYTES }, (error, stdout, stderr) => {
      if (!error) return resolve(stdout);
      const spawnError = typeof error.code === 'string' ? (error as NodeJS.ErrnoException) : undefined;
      reject(sshError({ address, stderr, spawnError }));
    });
  });
}
