import { RunnerClient } from '@flashcore/shared/client';
import { UsageError } from '../usage-error.ts';
import { dataDirectory } from './data-directory.ts';
import type { InstanceRecord } from '../remote/instance.ts';
import { isSshAddress } from '../remote/ssh-address.ts';
import { ensureEmbeddedRunner } from './embedded-runner.ts';
import { connectBySsh } from './ssh-runner.ts';
import { describeTarget, hasTlsFlags, resolveTarget, type Target, type TlsFlags } from './target.ts';

/** A runner that answers, and how it was come by. */
export interface Connection {
  readonly client: RunnerClient;
  /** Remote: somebody else's to start and to end, be it on this machine. */
  readonly kind: 'embedded' | 'remote';
  readonly address: string;
  /** "embedded (pid 4711, ~/.flashcore)" or "gpu01:50051". */
  readonly description: string;
  /**
   * Brings an embedded runner back at the same address after it was killed, and settles when a broken ssh tunnel is
   * there again; others are their owners' to start. Errors: why it can't.
   */
  readonly revive?: () => Promise<void>;
  /** Of a host that the settings have hooks for. */
  readonly instance?: InstanceRecord | undefined;
  /** Ends the connection, with the tunnel that it may have. */
  readonly close: () => void;
}

export interface ConnectOptions {
  /**
   * --runner, a name of fa-tui login or an address; else FLASHCORE_RUNNER; else the embedded runner, started when it
   * does not run yet.
   */
  readonly runner?: string | undefined;
  readonly tls?: TlsFlags;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal;
  /** Whether a person at a terminal can be asked for what ssh wants to know. */
  readonly mayAsk?: boolean;
  /** Of a runner behind ssh: start it where none runs. */
  readonly startRunner?: boolean;
  /** The user's command that renews the login of its host, for texts. */
  readonly login?: string | undefined;
  /** Told of what people should know meanwhile, for example that an older runner is replaced. */
  readonly notify?: (message: string) => void;
}

/**
 * Connects to the runner asked for. Errors: UsageError for what is neither address nor known name, RUNNER_UNREACHABLE,
 * UNAUTHENTICATED, VERSION_MISMATCH.
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
  const revive = async () => (await ensure()).client.close();
  return { client, kind: 'embedded', address, description: `embedded (pid ${pid}, ${directory})`, revive, close };
}

/** Connects to one that was found. Errors: as connect(). */
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
