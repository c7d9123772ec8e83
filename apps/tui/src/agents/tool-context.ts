import type { KernelReference } from '@flashcore/shared/contract';
import type { RunnerClient } from '@flashcore/shared/client';
import type { Connection } from '../connection/connect.ts';
import type { SourcePlace } from '../search/kernel-source.ts';

/** Connects to the runner when a tool first needs it, so that a host that only lists the tools does not wait. */
export class LazyRunner {
  readonly #connect: () => Promise<Connection>;
  #connection: Promise<Connection> | undefined;

  constructor(connect: () => Promise<Connection>) {
    this.#connect = connect;
  }

  /** The connection. Errors: those of connecting; the next call then tries again. */
  get(): Promise<Connection> {
    this.#connection ??= this.#connect().catch((error: unknown) => {
      this.#connection = undefined;
      throw error;
    });
    return this.#connection;
  }

  async close(): Promise<void> {
    const connection = await this.#connection?.catch(() => undefined);
    connection?.close();
  }
}

/** Dependencies of the tools. */
export interface ToolContext {
  readonly runner: LazyRunner;
  /** True if agents may accept, reject and undo. */
  readonly mayDecide: boolean;
  /** Writes to stderr, because stdout is reserved for the protocol. */
  readonly log: (text: string) => void;
  /** The kernel that an agent named. Errors: Refused, INVALID_MANIFEST. */
  readonly kernelOf: (text: string) => Promise<SourcePlace>;
  /** How a request names the kernel. A folder is uploaded first. */
  readonly referenceTo: (place: SourcePlace, client: RunnerClient) => Promise<KernelReference>;
}
