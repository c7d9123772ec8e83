/** A proxy between client and runner that cuts connections after a given number of the runner's bytes. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { freePort } from '@flashcore/shared/testing';

export class CutProxy implements AsyncDisposable {
  readonly address: string;
  readonly #server;
  readonly #sockets = new Set<Socket>();
  #cuts: number[] = [];
  #allowed = Infinity;
  #isDown = false;
  /** How many of the runner's bytes the proxy has passed on since cutAfter(). */
  passed = 0;
  /** How many connections the proxy has cut since cutAfter(). */
  cuts = 0;

  private constructor(address: string, target: string) {
    this.address = address;
    this.#server = createServer((client) => this.#join(client, connect(placeOf(target)))).listen(placeOf(address));
  }

  /** Listens on a Unix socket for a runner on another socket. */
  static async open(path: string, target: string): Promise<CutProxy> {
    const proxy = new CutProxy(`unix:${path}`, target);
    await once(proxy.#server, 'listening');
    return proxy;
  }

  /**
   * Listens on a free port of one of this machine's addresses for a runner at host:port. The traffic may be TLS,
   * because the proxy does not read it.
   */
  static async openTcp(host: string, target: string): Promise<CutProxy> {
    const proxy = new CutProxy(`${host}:${await freePort(host)}`, target);
    await once(proxy.#server, 'listening');
    return proxy;
  }

  /**
   * Passes on as many of the runner's bytes as the first number says, then resets the connection. The second number
   * counts the bytes after that cut, and so on.
   */
  cutAfter(...bytes: number[]): void {
    this.passed = this.cuts = 0;
    this.#cuts = bytes;
    this.#allowed = this.#cuts.shift() ?? Infinity;
  }

  /** Resets all connections, and resets every new one until `restore()`. */
  interrupt(): void {
    this.#isDown = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  restore(): void {
    this.#isDown = false;
  }

  #join(client: Socket, runner: Socket): void {
    if (this.#isDown) {
      client.destroy();
      runner.destroy();
      return;
    }
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
      this.cuts += 1;
      this.#allowed = this.#cuts.shift() ?? Infinity;
      runner.pause();
      // Cuts only after the client has received the bytes that were passed on.
      client.write(part, close);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await Promise.resolve();
  }
}

/** "unix:/path" or "host:port" in node:net's form. */
function placeOf(address: string): { path: string } | { host: string; port: number } {
  if (address.startsWith('unix:')) return { path: address.slice('unix:'.length) };
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
}
