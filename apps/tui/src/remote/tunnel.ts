/** A tunnel to a runner through ssh: a private local socket, and an ssh process for each connection to it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as z from 'zod';
import { isRunning } from '@flashcore/shared/files';
import { plainLine } from '@flashcore/shared/text';
import { expiredCertificate } from './ssh-certificate.ts';
import { sshError, type SshError } from './ssh-problem.ts';
import { sshProcess, type SshHost } from './ssh-command.ts';

interface TunnelOptions {
  readonly host: SshHost;
  readonly environment: NodeJS.ProcessEnv;
  /** The arguments of ssh for a connection, before and after the host. */
  readonly carry: Carry;
  /** The user's command that renews a login. */
  readonly login?: string | undefined;
}

/**
 * The arguments that make ssh carry a connection: a forward (`-W`), or a command on the host whose stdin and stdout are
 * the connection.
 */
export interface Carry {
  readonly options: readonly string[];
  readonly command: readonly string[];
  /** Receives the command's greeting before the connection's data; absent for a forward. */
  readonly greeted?: (greeting: DialGreeting) => void;
}

/** Outcome of a connection attempt; undefined if the runner answered. */
type Outcome = SshError | undefined;

const MAX_STDERR = 16 * 1024;
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 15_000;
const KILL_AFTER_MS = 2_000;
/** A connection that lasted this long worked, so the next failure is treated as the first one. */
const SETTLED_AFTER_MS = 5_000;
/** macOS has room for 104 bytes, including the final zero. */
const MAX_SOCKET_PATH = 103;
const FOLDER = /^fa-ssh-(\d+)-/;

/**
 * Listens on a Unix socket in a folder of mode 0700 and starts an ssh for each connection, so that a client that
 * reconnects gets a new ssh. After each failure the next ssh waits longer, so that the host does not lock out the user
 * for too many attempts.
 */
export class Tunnel {
  /** The address that a client connects to. */
  readonly address: string;
  readonly #options: TunnelOptions;
  readonly #folder: string;
  readonly #server: Server;
  readonly #links = new Set<ChildProcess>();
  readonly #waiting = new Set<(outcome: Outcome) => void>();
  #failures = 0;
  #notBefore = 0;
  #closed = false;
  /** True if the next ssh may ask a person and shares the terminal. */
  #mayAsk = false;

  private constructor(options: TunnelOptions, folder: string, server: Server) {
    this.#options = options;
    this.#folder = folder;
    this.#server = server;
    this.address = `unix:${path.join(folder, 's')}`;
    server.on('connection', (socket) => this.#accept(socket));
    process.once('exit', this.#end);
  }

  static async open(options: TunnelOptions): Promise<Tunnel> {
    const folder = socketFolder();
    const server = createServer({ pauseOnConnect: true });
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject).listen(path.join(folder, 's'), resolve);
      });
      chmodSync(path.join(folder, 's'), 0o600);
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
    server.unref();
    return new Tunnel(options, folder, server);
  }

  /**
   * Waits for the outcome of the next attempt. Returns when the runner has answered, and throws the reason if ssh ended
   * before.
   */
  async nextOutcome(): Promise<void> {
    const outcome = await new Promise<Outcome>((resolve) => this.#waiting.add(resolve));
    if (outcome) throw outcome;
  }

  /** Starts the next ssh at once, and lets it ask on the terminal for a password or about a new host's key. */
  letAsk(): void {
    this.#mayAsk = true;
    this.#notBefore = 0;
  }

  /** Ends all connections and their ssh processes, and removes the socket. */
  close(): void {
    this.#end();
    process.removeListener('exit', this.#end);
  }

  readonly #end = (): void => {
    this.#closed = true;
    this.#server.close();
    for (const link of this.#links) endLink(link);
    this.#waiting.clear();
    rmSync(this.#folder, { recursive: true, force: true });
  };

  #accept(socket: Socket): void {
    socket.on('error', () => socket.destroy());
    const start = (): void => {
      if (this.#closed) socket.destroy();
      if (!socket.destroyed) this.#carry(socket);
    };
    const delay = this.#notBefore - performance.now();
    if (delay <= 0) return start();
    const timer = setTimeout(start, delay).unref();
    socket.once('close', () => clearTimeout(timer));
  }

  #carry(socket: Socket): void {
    const { host, carry, environment } = this.#options;
    const asks = this.#mayAsk;
    this.#mayAsk = false;
    const args = ['-o', `BatchMode=${asks ? 'no' : 'yes'}`, ...host.options, ...carry.options];
    const link = spawn('ssh', [...args, '--', host.destination, ...carry.command], {
      // In its own session Ctrl-C does not reach ssh: the first Ctrl-C only prints how to come back to the job.
      ...sshProcess(environment, asks),
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#links.add(link);
    const startedAt = performance.now();
    let stderr = '';
    let spawnError: NodeJS.ErrnoException | undefined;
    let spoke = false;
    link.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-MAX_STDERR)));
    link.on('error', (error) => (spawnError = error));
    const speak = (): void => {
      spoke = true;
      this.#tell(undefined);
    };
    passOn(link, socket, { greeted: carry.greeted, speak });
    socket.pipe(link.stdin);
    link.stdin.on('error', () => socket.destroy());
    socket.once('close', () => endLink(link));
    link.once('close', () => {
      this.#links.delete(link);
      socket.destroy();
      if (this.#closed) return;
      if (spoke && performance.now() - startedAt > SETTLED_AFTER_MS) this.#failures = 0;
      this.#notBefore = performance.now() + Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#failures++);
      if (!spoke) void this.#tellWhy(stderr, spawnError);
    });
  }

  async #tellWhy(stderr: string, spawnError: NodeJS.ErrnoException | undefined): Promise<void> {
    const { host, environment, login } = this.#options;
    const denied = /Permission denied/.test(stderr);
    const certificate = denied ? await expiredCertificate(host.certificates, environment) : undefined;
    this.#tell(sshError({ address: host.address, stderr, spawnError, login, certificate }));
  }

  #tell(outcome: Outcome): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve(outcome);
  }
}

interface Passing {
  readonly greeted: Carry['greeted'];
  /** Called when the first byte of the connection arrives. */
  readonly speak: () => void;
}

/** Passes the host's data to the socket, starting after the greeting. */
function passOn({ stdout }: ChildProcess, socket: Socket, { greeted, speak }: Passing): void {
  const reader = new GreetingReader();
  const pass = (first: Buffer): void => {
    stdout!.removeListener('data', read);
    speak();
    if (first.length > 0) socket.write(first);
    stdout!.pipe(socket);
  };
  const read = (bytes: Buffer): void => {
    if (greeted === undefined) return pass(bytes);
    try {
      const found = reader.read(bytes);
      if (found === undefined) return;
      greeted(found.greeting);
      pass(found.rest);
    } catch {
      // This is not a connection of our dial command, so it is closed. When ssh ends, the missing greeting is reported.
      socket.destroy();
    }
  };
  stdout!.on('data', read);
}

function endLink(link: ChildProcess): void {
  link.stdin?.destroy();
  if (!link.kill('SIGTERM')) return;
  const timer = setTimeout(() => link.kill('SIGKILL'), KILL_AFTER_MS).unref();
  link.once('exit', () => clearTimeout(timer));
}

/** A private folder whose path is short enough. Folders left behind by killed programs are removed. */
function socketFolder(): string {
  const name = `fa-ssh-${process.pid}-`;
  const fits = Buffer.byteLength(path.join(tmpdir(), `${name}XXXXXX/s`)) <= MAX_SOCKET_PATH;
  const parent = fits ? tmpdir() : '/tmp';
  for (const found of readdirSync(parent)) if (isLeft(found)) removeOwn(path.join(parent, found));
  return mkdtempSync(path.join(parent, name));
}

function isLeft(name: string): boolean {
  const pid = Number(FOLDER.exec(name)?.[1]);
  return pid > 0 && !isRunning(pid);
}

/** Removes a folder of this user. Another user's folder is skipped, because only its owner may remove it. */
function removeOwn(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch (error) {
    if (!['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

const MARKER = Buffer.from('\0flashcore-dial\0');
const MAX_BYTES = 64 * 1024;

const shownLine = z.string().max(500).transform(plainLine);
const GREETING = z.object({
  /** Process id of the runner. It was either started for this connection or already running. */
  pid: z.int().optional(),
  started: z.boolean(),
  log: shownLine.optional(),
});
/**
 * The line that `fa-tui __dial` on the host sends before the connection's data. Output of the login shell may come
 * first.
 */
export type DialGreeting = z.output<typeof GREETING>;

export const greetingBytes = (greeting: DialGreeting): Buffer =>
  Buffer.concat([MARKER, Buffer.from(`${JSON.stringify(greeting)}\n`)]);

/** Reads pieces of a stream until the greeting is complete. The remaining bytes belong to the connection. */
export class GreetingReader {
  #bytes = Buffer.alloc(0);

  /** Undefined until the greeting is complete. Throws if the data can't become a greeting. */
  read(piece: Buffer): { greeting: DialGreeting; rest: Buffer } | undefined {
    this.#bytes = Buffer.concat([this.#bytes, piece]);
    const at = this.#bytes.indexOf(MARKER);
    const end = at < 0 ? -1 : this.#bytes.indexOf('\n', at);
    if (end >= 0) {
      const text = this.#bytes.subarray(at + MARKER.length, end).toString('utf8');
      return { greeting: GREETING.parse(JSON.parse(text)), rest: this.#bytes.subarray(end + 1) };
    }
    if (this.#bytes.length > MAX_BYTES) throw new Error('the host prints too much before the connection');
    return undefined;
  }
}
