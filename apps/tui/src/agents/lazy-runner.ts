import type { Connection } from '../connection/connect.ts';

/**
 * The runner, reached when a tool first needs it: a host that starts the server to ask for its tools waits for nothing.
 */
export class LazyRunner {
  readonly #connect: () => Promise<Connection>;
  #connection: Promise<Connection> | undefined;

  constructor(connect: () => Promise<Connection>) {
    this.#connect = connect;
  }

  /** Errors: those of connecting; the next call tries again. */
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
