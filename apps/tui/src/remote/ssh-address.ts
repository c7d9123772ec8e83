import { UsageError } from '../exit-code.ts';

/** A runner behind ssh: `ssh://[user@]host[:port][/runner]`. */
export interface SshAddress {
  /** The address as given, used in messages. */
  readonly text: string;
  /** A host from ssh's configuration, a name or an IP address. */
  readonly host: string;
  readonly user: string | undefined;
  /** sshd's port; undefined to use ssh's configuration. */
  readonly port: number | undefined;
  readonly runner: RunnerThere;
}

/** The runner's endpoint on its host: a port on 127.0.0.1, or a Unix socket. */
type RunnerThere =
  | { readonly kind: 'port'; readonly port: number; readonly isDefault: boolean }
  | { readonly kind: 'socket'; readonly path: string };

/** Default port of `flashcore-runner serve`. */
const RUNNER_PORT = 50_051;

// ssh passes the names to ProxyCommand and Match exec, which pass them to a shell, so only characters that need no
// quoting are allowed.
const PARTS =
  /^ssh:\/\/(?:([\w.][\w.+-]{0,63})@)?(\[[0-9a-f:.]{2,45}\]|[a-z0-9_](?:[\w.-]{0,253}))(?::(\d{1,5}))?(\/.*)?$/i;
const SOCKET = /^\/[\w./@+-]{1,100}$/;

export const isSshAddress = (text: string): boolean => /^ssh:/i.test(text);

/** Errors: UsageError with the mistake and the form of an address. */
export function parseSshAddress(text: string): SshAddress {
  const refuse = (why: string): UsageError =>
    new UsageError(
      `${text}: ${why}; must be ssh://[user@]host[:port][/runner] (ssh://gpu-box, ssh://ada@gpu-box:2222/50052, ssh://gpu-box/run/flashcore.sock)`,
    );
  const parts = PARTS.exec(text);
  if (/^ssh:\/\/[^/]*:[^/]*@/i.test(text))
    throw refuse('a password has no place in an address; ssh asks for it, or uses a key');
  if (!parts) throw refuse('its host is not a name that ssh can take');
  const [, user, host, port, path = '/'] = parts;
  return {
    text,
    user,
    host: host!.replace(/^\[|\]$/g, ''),
    port: port === undefined ? undefined : portOf(port, () => refuse(`${port} is not a port of sshd`)),
    runner: runnerOf(path.slice(1), path, refuse),
  };
}

function runnerOf(rest: string, path: string, refuse: (why: string) => UsageError): RunnerThere {
  if (rest === '') return { kind: 'port', port: RUNNER_PORT, isDefault: true };
  if (/^\d+$/.test(rest))
    return { kind: 'port', port: portOf(rest, () => refuse(`${rest} is not a port of a runner`)), isDefault: false };
  if (!SOCKET.test(path)) throw refuse('what follows the host is neither a port nor the path of a socket');
  return { kind: 'socket', path };
}

function portOf(text: string, refusal: () => UsageError): number {
  const port = Number(text);
  if (port < 1 || port > 65_535) throw refusal();
  return port;
}

/** Bundles on the host: `bundles/<digest>/`, and a link `current`. */
export const BUNDLES = '${FLASHCORE_HOME:-$HOME/.flashcore}/bundles';

/** A script as a single command line. It must not contain single quotes. */
export function asCommand(script: string): string {
  if (script.includes("'")) throw new Error('a script for the host must do without single quotes');
  return `exec sh -c '${script}'`;
}

/** A command line for a program of the installed bundle. Words that need quoting are refused. */
export function bundled(program: 'fa-tui' | 'flashcore-runner', ...words: string[]): string {
  const strange = words.find((word) => !/^[\w./:@+-]+$/.test(word));
  if (strange !== undefined) throw new Error(`a word for the host needs quoting: ${strange}`);
  return asCommand(
    `p="${BUNDLES}/current/${program}"; [ -x "$p" ] || { echo "${program} is not installed there" >&2; exit 127; }; exec "$p" ${words.join(' ')}`,
  );
}

/** Hidden commands that this program uses to start itself, on the host and on this machine. */

/** On the host: connects stdin and stdout to the runner. */
export const DIAL = '__dial';

/** On this machine: watches a host and stops it when it is idle. */
export const IDLE = '__idle';
