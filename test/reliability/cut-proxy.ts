/** A proxy between client and runner that cuts connections after a given number of the runner's bytes. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export class CutProxy implements AsyncDisposable {
  readonly address: string;
  readonly #server;
  readonly #sockets = new Set<Socket>();
  #cuts: number[] = [];
  #allowed = Infinity;
  /** The runner's bytes that went through since cutAfter(). */
  passed = 0;

  private constructor(path: string, target: string) {
    this.address = `unix:${path}`;
    this.#server = createServer((client) => this.#join(client, connect(target.slice('unix:'.length)))).listen(path);
  }

  /** Listens on a Unix socket for a runner on another one. */
  static async open(path: string, target: string): Promise<CutProxy> {
    const proxy = new CutProxy(path, target);
    await once(proxy.#server, 'listening');
    return proxy;
  }

  /** Lets so many bytes of the runner through, then resets the connection; the second number counts from then on, and so on. */
  cutAfter(...bytes: number[]): void {
    this.passed = 0;
    this.#cuts = bytes;
    this.#allowed = this.#cuts.shift() ?? Infinity;
  }

  #join(client: Socket, runner: Socket): void {
    const close = (): void => {
      client.destroy();
      runner.destroy();
    };
    for (const socket of [client, runner]) {
      this.#sockets.add(socket);
      socket.on('error', close).on('close', () => {
        this.#sockets.delete(socket);
        close();
      });
    }
    client.pipe(runner);
    runner.on('data', (data: Buffer) => {
      const part = data.subarray(0, Math.min(data.length, this.#allowed));
      this.#allowed -= part.length;
      this.passed += part.length;
      if (part.length === data.length) {
        client.write(part);
        return;
      }
      this.#allowed = this.#cuts.shift() ?? Infinity;
      runner.pause();
      // What was let through arrives: only then the cut.
      client.write(part, close);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await Promise.resolve();
  }
}
