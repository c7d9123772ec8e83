import { RunnerClient, type ClientSecurity } from '@flashcore/shared/client';
import { parseSshAddress, type SshAddress, bundled, DIAL } from '../remote/ssh-address.ts';
import { sshHost } from '../remote/ssh-command.ts';
import { SshError } from '../remote/ssh-problem.ts';
import { Tunnel, type Carry, type DialGreeting } from '../remote/tunnel.ts';
import { UsageError } from '../exit-code.ts';

/** A runner reached through a tunnel of this program. */
interface SshRunner {
  readonly client: RunnerClient;
  /** Settles when a broken tunnel works again. Errors: the reason why ssh could not restore it. */
  readonly revive: () => Promise<void>;
  readonly close: () => void;
}

interface SshRunnerOptions {
  /** An address such as ssh://host/port. */
  readonly address: string;
  readonly security: ClientSecurity | undefined;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal;
  /**
   * True if a person at a terminal can be asked for a password. This holds only while connecting: later the screen may
   * be open, and ssh must not ask.
   */
  readonly mayAsk: boolean;
  /** True to start the runner of the bundle on the host if none is running. */
  readonly startRunner?: boolean;
  /** The user's command that renews a login. */
  readonly login?: string | undefined;
  /** Receives messages for people. */
  readonly notify?: (message: string) => void;
}

/** Long enough for jump hosts and for a security key that must be touched. If ssh may ask, a person gets more time. */
const CONNECT_LIMIT_MS = 30_000;
const ASKING_LIMIT_MS = 120_000;

/**
 * Reaches a runner through ssh. Errors, as soon as ssh reports them: SshError (RUNNER_UNREACHABLE, UNAUTHENTICATED)
 * with a remedy; and the errors of RunnerClient.connect.
 */
export async function connectBySsh(options: SshRunnerOptions): Promise<SshRunner> {
  const { environment, mayAsk } = options;
  const address = parseSshAddress(options.address);
  const carry = carryFor(address, options);
  const host = await sshHost(address, environment);
  const tunnel = await Tunnel.open({ host, environment, carry, login: options.login });
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

/**
 * A port is reached by ssh's own forwarding. A socket, and a runner that is started on demand, need a command of the
 * bundle on the host.
 */
function carryFor({ runner, text, host }: SshAddress, { startRunner, notify }: SshRunnerOptions): Carry {
  if (startRunner) {
    if (runner.kind === 'socket' || !runner.isDefault)
      throw new UsageError(
        `--start-runner: starts the runner of that user, which has a socket of its own: give an address that ends with its host; got ${text}`,
      );
    const greeted = ({ pid, started, log }: DialGreeting): void => {
      if (started) notify?.(`runner: started on ${host} (pid ${pid}); it ends when nobody uses it; its log: ${log}`);
    };
    return { options: [], command: [bundled('fa-tui', DIAL, 'start')], greeted };
  }
  return runner.kind === 'port'
    ? { options: ['-W', `127.0.0.1:${runner.port}`], command: [] }
    : { options: [], command: [bundled('fa-tui', DIAL, runner.path)], greeted: () => undefined };
}

/** The connected client. Throws as soon as ssh has failed. */
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
