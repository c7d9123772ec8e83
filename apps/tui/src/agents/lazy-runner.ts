import type { Connection } from '../connection/connect.ts';

/** Connects to the runner when a tool first needs it, so that a host that only lists the tools does not wait. */
export class LazyRunner {
  readonly #connect: () => Promise<Connection>;
  #connection: Promise<Connection> | undefined;

  constructor(connect: () => Promise<Connection>) {
    this.#connect = connect;
  }

  /** Errors: those of connecting. The next call tries again. */
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
