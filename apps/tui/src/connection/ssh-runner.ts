import { RunnerClient, type ClientSecurity } from '@flashcore/shared/client';
import { parseSshAddress } from '../remote/ssh-address.ts';
import { sshHost } from '../remote/ssh-command.ts';
import { SshError } from '../remote/ssh-problem.ts';
import { Tunnel, type Carry } from '../remote/tunnel.ts';

/** A runner that is reached through a tunnel of this program's own. */
export interface SshRunner {
  readonly client: RunnerClient;
  /** Settles when a broken tunnel is there again; errors: why ssh could not make it. */
  readonly revive: () => Promise<void>;
  readonly close: () => void;
}

export interface SshRunnerOptions {
  /** ssh://… */
  readonly address: string;
  readonly security: ClientSecurity | undefined;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal;
  /** Whether a person at a terminal can be asked for a password; later, when a screen may be there, nobody is. */
  readonly mayAsk: boolean;
}

/** Jump hosts and a security key that wants to be touched take their time; a person takes more. */
const CONNECT_LIMIT_MS = 30_000;
const ASKING_LIMIT_MS = 120_000;

/**
 * Reaches a runner through ssh. Errors, as soon as ssh says so: SshError (RUNNER_UNREACHABLE, UNAUTHENTICATED) with
 * what to do; those of RunnerClient.connect.
 */
export async function connectBySsh(options: SshRunnerOptions): Promise<SshRunner> {
  const { environment, mayAsk } = options;
  const host = await sshHost(parseSshAddress(options.address), environment);
  const tunnel = await Tunnel.open({ host, environment, carry: forward(host.address) });
  try {
    const client = await dial(tunnel, options, CONNECT_LIMIT_MS).catch((error: unknown) => {
      if (!mayAsk || !(error instanceof SshError) || !error.asks) throw error;
      tunnel.letAsk();
      return dial(tunnel, options, ASKING_LIMIT_MS);
    });
    const close = (): void => {
      client.close();
      tunnel.close();
    };
    return { client, revive: () => tunnel.nextOutcome(), close };
  } catch (error) {
    tunnel.close();
    throw error;
  }
}

const forward = ({ runner }: ReturnType<typeof parseSshAddress>): Carry =>
  runner.kind === 'port' ? { options: ['-W', `127.0.0.1:${runner.port}`], command: [] } : { options: [], command: [] };

/** The client, or as soon as ssh failed why. */
async function dial(
  tunnel: Tunnel,
  { address, security, signal }: SshRunnerOptions,
  timeoutMs: number,
): Promise<RunnerClient> {
  const failed = new AbortController();
  tunnel.nextOutcome().catch((error: unknown) => failed.abort(error));
  return RunnerClient.connect({
    address: tunnel.address,
    name: address,
    security,
    timeoutMs,
    signal: signal ? AbortSignal.any([signal, failed.signal]) : failed.signal,
  });
}
