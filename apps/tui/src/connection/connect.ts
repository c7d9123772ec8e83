import { RunnerClient, readClientSecurity } from '@flashcore/shared';
import { parseAddress } from './address.ts';
import { dataDirectory } from './data-directory.ts';
import { ensureEmbeddedRunner } from './embedded-runner.ts';

/** A runner that answers, and how it was come by. */
export interface Connection {
  readonly client: RunnerClient;
  readonly kind: 'embedded' | 'remote';
  readonly address: string;
  /** "embedded (pid 4711, ~/.flashcore)" or "gpu01:50051". */
  readonly description: string;
  /** Brings an embedded runner back at the same address after it was killed; remote ones are their owners' to start. */
  readonly revive?: () => Promise<void>;
}

export interface ConnectOptions {
  /** --runner; else FLASHCORE_RUNNER; else the embedded runner, started when it does not run yet. */
  readonly runner?: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal;
  /** Told of what people should know meanwhile, for example that an older runner is replaced. */
  readonly notify?: (message: string) => void;
}

/** Connects to the runner asked for. Errors: UsageError for a malformed address, RUNNER_UNREACHABLE, VERSION_MISMATCH. */
export async function connect({ runner, environment, signal, notify }: ConnectOptions): Promise<Connection> {
  const asked = runner ?? environment.FLASHCORE_RUNNER;
  if (asked) return connectTo(parseAddress(asked), environment, signal);
  const directory = dataDirectory(environment);
  const ensure = () => ensureEmbeddedRunner({ directory, environment, ...(signal && { signal }), ...(notify && { notify }) });
  const { client, pid, address } = await ensure();
  const revive = async () => (await ensure()).client.close();
  return { client, kind: 'embedded', address, description: `embedded (pid ${pid}, ${directory})`, revive };
}

/** As runners.json says, where it names this runner; in plain text where not. */
async function connectTo(address: string, environment: NodeJS.ProcessEnv, signal: AbortSignal | undefined): Promise<Connection> {
  const client = await RunnerClient.connect({ address, security: readClientSecurity(address, environment), ...(signal && { signal }) });
  return { client, kind: 'remote', address, description: address };
}
