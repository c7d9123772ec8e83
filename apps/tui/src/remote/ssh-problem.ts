/** Explains ssh's failures: the problem, then the remedy. */
import { FlashcoreError } from '@flashcore/shared/contract';
import { plainText } from '@flashcore/shared/text';
import { expiredLogin, renewal } from './expired-login.ts';
import type { ExpiredCertificate } from './ssh-certificate.ts';
import type { SshAddress } from './ssh-address.ts';

/** How an ssh process ended, with facts that may explain it. */
interface SshEnd {
  readonly address: SshAddress;
  readonly stderr: string;
  /** The error from starting ssh if this machine has no ssh. */
  readonly spawnError?: NodeJS.ErrnoException | undefined;
  /** The user's command that renews a login. */
  readonly login?: string | undefined;
  /** The user's expired certificate, if there is one: it explains why sshd refuses the user. */
  readonly certificate?: ExpiredCertificate | undefined;
}

interface Remedy {
  readonly found: RegExp;
  readonly say: (address: SshAddress, stderr: string) => string;
  /** True if a person at a terminal could help with a password, a passphrase, or "yes" to a new host's key. */
  readonly asks?: boolean;
  readonly standing?: Standing;
}

/** down: the host does not answer. cut: the host ended the connection. no-runner: ssh works, but no runner listens. */
export type Standing = 'down' | 'cut' | 'no-runner';

/** ssh could not reach the runner. */
export class SshError extends FlashcoreError {
  /** True if a person at a terminal could have helped ssh. */
  readonly asks: boolean;
  /** State of the host, if starting it may help. */
  readonly standing: Standing | undefined;

  constructor(
    reason: 'RUNNER_UNREACHABLE' | 'UNAUTHENTICATED',
    message: string,
    { address, asks = false, standing }: SshErrorAbout,
  ) {
    super(reason, { address }, message);
    this.asks = asks;
    this.standing = standing;
  }
}

interface SshErrorAbout {
  readonly address: string;
  readonly asks?: boolean;
  readonly standing?: Standing | undefined;
}

const MAX_LINES = 4;
const MAX_LINE = 300;

const by = ({ host, user, port }: SshAddress): string =>
  `ssh ${port === undefined ? '' : `-p ${port} `}${user === undefined ? '' : `${user}@`}${host}`;

/** The address without the runner's part. */
const withoutRunner = ({ text }: SshAddress): string => text.replace(/^(ssh:\/\/[^/]*).*/i, '$1');

const runnerThere = ({ runner }: SshAddress): string =>
  runner.kind === 'port' ? `127.0.0.1:${runner.port}` : runner.path;

/** The first match is used, so a changed key must come before "verification failed". */
const REMEDIES: readonly Remedy[] = [
  {
    found: /REMOTE HOST IDENTIFICATION HAS CHANGED|host key .{0,80}has changed/i,
    say: (address, stderr) =>
      `The host key of ${address.host} changed: another machine may answer in its place. If it was set up anew, forget the old key (${forget(stderr, address)}) and accept the new one (${by(address)})`,
  },
  {
    found: /Host key verification failed|No \S+ host key is known/,
    say: (address) => `The host key of ${address.host} is not known here: compare and accept it once (${by(address)})`,
    asks: true,
  },
  {
    found: /Too many authentication failures/,
    say: (address) =>
      `${address.host} cut the login after too many keys: name the right one in ssh's configuration (IdentityFile, IdentitiesOnly yes)`,
  },
  {
    found: /Permission denied/,
    say: (address) =>
      `${address.host} did not let ssh in: make "${by(address)}" work without a question (ssh-add a key, or ControlMaster in ssh's configuration)`,
    asks: true,
  },
  {
    found: /open failed: administratively prohibited/,
    say: (address) =>
      `sshd on ${address.host} forbids forwarding: set AllowTcpForwarding there to yes or local (and PermitOpen to ${runnerThere(address)})`,
  },
  {
    standing: 'no-runner',
    found: /open failed: connect failed|Stdio forwarding request failed|no runner (?:listens|answers) at/,
    say: (address) =>
      `No runner listens at ${runnerThere(address)} on ${address.host}: start one there (flashcore-runner serve), or have it started (--start-runner, after fa-tui host install ${withoutRunner(address)})`,
  },
  {
    found: /fa-tui: (?:not found|No such file)|is not installed there/,
    say: (address) => `flashcore is not installed on ${address.host}: fa-tui host install ${withoutRunner(address)}`,
  },
  {
    standing: 'down',
    found: /Could not resolve hostname|Name or service not known|nodename nor servname/i,
    say: (address) => `No name server and no ssh configuration knows ${address.host}: correct the host's name`,
  },
  {
    standing: 'down',
    found: /connect to (?:host|address) .{1,300}: Connection refused/,
    say: (address) => `No sshd answers on ${address.host}: look whether the machine runs, and the port`,
  },
  {
    standing: 'down',
    found: /timed out|No route to host|Network is unreachable|Host is down/i,
    say: (address) => `${address.host} can't be reached: look whether the machine and the network are up`,
  },
  {
    found: /Bad configuration option|bad configuration options|Bad owner or permissions|Can't open user config/,
    say: () => `ssh refuses its configuration: correct it`,
  },
  {
    standing: 'cut',
    found: /Connection (?:closed|reset)|kex_exchange_identification|Broken pipe|banner exchange|not responding/,
    say: (address) => `${address.host} cut the connection: try again, and look at its sshd`,
  },
];

/** RUNNER_UNREACHABLE, or UNAUTHENTICATED if a login expired. */
export function sshError({ address, stderr, spawnError, login, certificate }: SshEnd): SshError {
  const about = { address: address.text };
  if (spawnError)
    return new SshError(
      'RUNNER_UNREACHABLE',
      spawnError.code === 'ENOENT'
        ? `No ssh on this machine, which ${address.text} needs: install it (openssh-client), or name a runner by host:port`
        : `ssh could not be started: ${spawnError.message}`,
      about,
    );
  const said = lastLines(stderr);
  const quoted = said === '' ? '' : `; ssh said: ${said}`;
  const expired = certificate ? certificateText(certificate, login) : expiredLogin(stderr, login);
  if (expired !== undefined) return new SshError('UNAUTHENTICATED', `${expired}${quoted}`, about);
  const remedy = REMEDIES.find(({ found }) => found.test(stderr));
  return new SshError('RUNNER_UNREACHABLE', `${remedy?.say(address, stderr) ?? unknownEnd(address, said)}${quoted}`, {
    ...about,
    asks: remedy?.asks ?? false,
    standing: remedy?.standing,
  });
}

/** Explains an end that matches no remedy. If ssh printed nothing, ssh itself worked. */
const unknownEnd = (address: SshAddress, said: string): string =>
  said === ''
    ? `What listens at ${runnerThere(address)} on ${address.host} cut the connection without a word: if it is a runner with TLS, log in (fa-tui login ${address.text} --tls-ca ca.crt)`
    : `ssh to ${address.host} failed: try ${by(address)}`;

const certificateText = ({ file, at }: ExpiredCertificate, login: string | undefined): string =>
  `The ssh certificate ${file} expired at ${at}: ${renewal(login)}`;

/**
 * The command that forgets a host's key. ssh prints it with the key's file, but its output may also contain text that
 * the host chose. Therefore the command is repeated only if it names a known_hosts file and needs no shell quoting.
 */
const forget = (stderr: string, { host, port }: SshAddress): string =>
  /ssh-keygen -f (["']?)[\w./~-]{0,200}known_hosts[\w.-]{0,50}\1 -R (["']?)[\w.:[\]-]{1,100}\2/.exec(
    plainText(stderr),
  )?.[0] ?? `ssh-keygen -R ${port === undefined ? host : `"[${host}]:${port}"`}`;

/** The last lines of a foreign text, joined into one, without the frame around ssh's warnings. */
export const lastLines = (text: string): string =>
  plainText(text)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !/^[@*\s]+$/.test(line) && !line.startsWith('@'))
    .slice(-MAX_LINES)
    .map((line) => (line.length > MAX_LINE ? `${line.slice(0, MAX_LINE - 1)}…` : line))
    .join(' | ');
