/** A way to a runner through ssh: a socket of ours alone, behind which an ssh carries each connection. */
import { spawn, type ChildProcess } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isRunning } from '@flashcore/shared/files';
import { GreetingReader, type DialGreeting } from './dial-protocol.ts';
import { expiredCertificate } from './ssh-certificate.ts';
import { sshError, type SshError } from './ssh-problem.ts';
import { sshProcess, type SshHost } from './ssh-command.ts';

export interface TunnelOptions {
  readonly host: SshHost;
  readonly environment: NodeJS.ProcessEnv;
  /** What ssh does for a connection: arguments before and after the host. */
  readonly carry: Carry;
  /** The user's command that renews a login. */
  readonly login?: string | undefined;
}

/** A forward (`-W`), or a command on the host whose stdin and stdout are the connection. */
export interface Carry {
  readonly options: readonly string[];
  readonly command: readonly string[];
  /** Told what the command on the host says before it passes the connection on; absent for a forward. */
  readonly greeted?: (greeting: DialGreeting) => void;
}

/** How a connection attempt ended: undefined, the runner spoke. */
type Outcome = SshError | undefined;

const MAX_STDERR = 16 * 1024;
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 15_000;
const KILL_AFTER_MS = 2_000;
/** A link that lived this long was a working one: the next failure is a first again. */
const SETTLED_AFTER_MS = 5_000;
/** macOS has room for 104 bytes, with the zero at the end. */
const MAX_SOCKET_PATH = 103;
const FOLDER = /^fa-ssh-(\d+)-/;

/**
 * Listens on a Unix socket in a folder of mode 0700 and starts an ssh for each connection to it, so that a client which
 * connects again gets a fresh one. After a failure the next ssh waits: longer from time to time, so that nobody is
 * locked out for knocking.
 */
export class Tunnel {
  /** What a client dials. */
  readonly address: string;
  readonly #options: TunnelOptions;
  readonly #folder: string;
  readonly #server: Server;
  readonly #links = new Set<ChildProcess>();
  readonly #waiting = new Set<(outcome: Outcome) => void>();
  #failures = 0;
  #notBefore = 0;
  #closed = false;
  /** May the next ssh ask a person? It then shares the terminal. */
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

  /** Settles with the next attempt: returns when the runner has spoken, throws why ssh ended before. */
  async nextOutcome(): Promise<void> {
    const outcome = await new Promise<Outcome>((resolve) => this.#waiting.add(resolve));
    if (outcome) throw outcome;
  }

  /** The next ssh may ask for a password or to accept a key, on the terminal, and is started at once. */
  letAsk(): void {
    this.#mayAsk = true;
    this.#notBefore = 0;
  }

  /** Ends its ssh processes with all connections; the socket goes. */
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
      // In a session of its own, because the first Ctrl-C only says how to come back to the job.
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
  /** Told of the connection's first byte. */
  readonly speak: () => void;
}

/** Gives the socket what comes from the host, from the greeting on. */
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
      // What answers is no dial of ours: the connection ends, and ssh's end says that there was none.
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

/** A folder of this user alone, with a path short enough; those of programs that were killed go. */
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

/** Another user's folder is theirs to remove. */
function removeOwn(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch (error) {
    if (!['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}
