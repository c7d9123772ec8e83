import { RunnerClient } from '@flashcore/shared/client';
import { dataDirectory } from './data-directory.ts';
import type { InstanceRecord } from '../remote/instance.ts';
import { isSshAddress } from '../remote/ssh-address.ts';
import { ensureEmbeddedRunner } from './embedded-runner.ts';
import { connectBySsh } from './ssh-runner.ts';
import { describeTarget, hasTlsFlags, resolveTarget, type Target, type TlsFlags } from './target.ts';
import { UsageError } from '../exit-code.ts';

/** A connected runner, and how it was reached. */
export interface Connection {
  readonly client: RunnerClient;
  /**
   * embedded: clients start the runner and may end it. remote: somebody else does, even if the runner is on this
   * machine.
   */
  readonly kind: 'embedded' | 'remote';
  readonly address: string;
  /** A text that names the runner for people, such as "embedded (pid 4711, ~/.flashcore)" or "gpu01:50051". */
  readonly description: string;
  /**
   * Restarts an embedded runner at the same address after it was killed, or settles when a broken ssh tunnel works
   * again. Other runners are started by their owners. Returns the new description of a restarted runner. Errors: the
   * reason why the runner can't be reached.
   */
  readonly revive?: () => Promise<string | void>;
  /** The record of the runner's host; undefined unless the settings have hooks for the host. */
  readonly instance?: InstanceRecord | undefined;
  /** Ends the connection and its tunnel, if it has one. */
  readonly close: () => void;
}

export interface ConnectOptions {
  /**
   * The runner from --runner, as an address or the name of a login; otherwise from FLASHCORE_RUNNER; otherwise the
   * embedded runner, which is started if it is not running.
   */
  readonly runner?: string | undefined;
  readonly tls?: TlsFlags;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal;
  /** True if a person at a terminal can answer ssh's questions. */
  readonly mayAsk?: boolean;
  /** True to start a runner behind ssh if it is not running. */
  readonly startRunner?: boolean;
  /** The user's command that renews the login of this host, for messages. */
  readonly login?: string | undefined;
  /** Receives messages for the user, for example that an older runner is replaced. */
  readonly notify?: (message: string) => void;
}

/**
 * Connects to the requested runner. Errors: UsageError if the text is neither an address nor a known name,
 * RUNNER_UNREACHABLE, UNAUTHENTICATED, VERSION_MISMATCH.
 */
export async function connect(options: ConnectOptions): Promise<Connection> {
  const { runner, tls = {}, environment, signal, notify } = options;
  const asked = runner ?? environment.FLASHCORE_RUNNER;
  if (asked) return connectTo(resolveTarget(asked, tls, environment), options);
  if (hasTlsFlags(tls))
    throw new UsageError(
      '--tls-ca, --tls-cert and --tls-key are for a runner elsewhere: name it with --runner; that of this machine is reached without TLS',
    );
  const directory = dataDirectory(environment);
  const ensure = () =>
    ensureEmbeddedRunner({ directory, environment, ...(signal && { signal }), ...(notify && { notify }) });
  const { client, pid, address, embedded } = await ensure();
  const close = (): void => client.close();
  if (!embedded)
    return { client, kind: 'remote', address, description: `${address} (pid ${pid}, ${directory})`, close };
  const descriptionOf = (process: number): string => `embedded (pid ${process}, ${directory})`;
  const revive = async (): Promise<string> => {
    const restarted = await ensure();
    restarted.client.close();
    return descriptionOf(restarted.pid);
  };
  return { client, kind: 'embedded', address, description: descriptionOf(pid), revive, close };
}

/** Connects to a resolved target. Errors: as connect(). */
export async function connectTo(
  target: Target,
  { environment, signal, mayAsk = false, startRunner = false, login, notify }: Omit<ConnectOptions, 'runner' | 'tls'>,
): Promise<Connection> {
  const { address, security } = target;
  const description = describeTarget(target);
  if (isSshAddress(address)) {
    const more = { ...(signal && { signal }), ...(notify && { notify }) };
    const reached = await connectBySsh({ address, security, environment, mayAsk, startRunner, login, ...more });
    return { ...reached, kind: 'remote', address, description };
  }
  const client = await RunnerClient.connect({ address, security, ...(signal && { signal }) });
  return { client, kind: 'remote', address, description, close: () => client.close() };
}
