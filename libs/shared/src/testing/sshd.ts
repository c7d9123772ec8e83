/** A real sshd on a loopback port, with its own keys and configuration, for one test file. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { until, waitFor } from './wait-for.ts';

const SSHD = '/usr/sbin/sshd';

export class Sshd {
  readonly folder = mkdtempSync(join(tmpdir(), 'fc-sshd-'));
  readonly port: number;
  /**
   * ssh's configuration. Most hosts are named after the state of their keys: box (accepted), stranger, restricted (no
   * forwards), expired. `shared` is like `box`, with a socket for a master connection. `asking` wants a password that
   * nobody has, and `behind` is reached through it.
   */
  readonly config = join(this.folder, 'ssh_config');
  readonly knownHosts = join(this.folder, 'known_hosts');
  readonly #process: ChildProcess;
  #log = '';

  private constructor(port: number, environment: Record<string, string>) {
    this.port = port;
    for (const name of ['host', 'user', 'stranger', 'restricted', 'authority', 'expired']) this.#makeKey(name);
    this.#keygen(
      '-s',
      this.#path('authority'),
      '-I',
      'test',
      '-V',
      '20200101:20200102',
      '-n',
      userInfo().username,
      this.#path('expired.pub'),
    );
    this.#write('authorized_keys', `${this.#read('user.pub')}restrict ${this.#read('restricted.pub')}`);
    this.trustHost();
    this.#write('ssh_config', this.#clientConfig());
    this.#write('sshd_config', this.#serverConfig(environment));
    // When root runs sshd, it needs the folder that its package's service creates.
    if (userInfo().uid === 0) mkdirSync('/run/sshd', { recursive: true });
    this.#process = spawn(SSHD, ['-D', '-e', '-f', this.#path('sshd_config')], { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#process.stderr!.setEncoding('utf8').on('data', (text: string) => (this.#log += text));
  }

  /** Starts an sshd and waits until it listens. `environment` is the environment of commands on the host. */
  static async start(environment: Record<string, string> = {}): Promise<Sshd> {
    const sshd = new Sshd(await freePort(), environment);
    const up = async (): Promise<boolean | undefined> =>
      (await listens(sshd.port)) || (sshd.#process.exitCode === null ? undefined : false);
    if (!(await waitFor(`sshd on port ${sshd.port}`, up, 10_000)))
      throw new Error(`sshd does not listen on port ${sshd.port}: ${sshd.#log}`);
    return sshd;
  }

  /** Makes this machine know the host by its own key, or by a stranger's. */
  trustHost(key: 'host' | 'stranger' = 'host'): void {
    const [type, base64] = this.#read(`${key}.pub`).split(' ');
    this.#write('known_hosts', `[127.0.0.1]:${this.port} ${type} ${base64}\n`);
  }

  /** Kills every connection, like a crash of the host; new connections are accepted. */
  cutSessions(): void {
    // An ordinary user's sshd serves a session in a child of the process that accepted the connection.
    for (const pid of this.sessions().flatMap((session) => [...childrenOf(session, 'sshd.*'), session]))
      try {
        process.kill(pid, 'SIGKILL');
      } catch (error) {
        // ESRCH: the process ended with its child.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
  }

  /** Processes that serve a connection. */
  sessions(): number[] {
    return childrenOf(this.#process.pid!, 'sshd.*');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cutSessions();
    this.#process.kill('SIGKILL');
    await until(() => this.#process.exitCode !== null || this.#process.signalCode !== null);
    rmSync(this.folder, { recursive: true, force: true });
  }

  #clientConfig(): string {
    const host = (name: string, key: string): string => `Host ${name}\n  IdentityFile ${this.#path(key)}\n`;
    // `asking` has no key, because ssh fails on keys in a home folder with a percent sign in its name.
    return `${host('box shared', 'user')}${host('stranger', 'stranger')}${host('restricted', 'restricted')}${host('expired', 'expired')}
Host asking
  PubkeyAuthentication no
  IdentityFile none
Host behind
  ProxyJump asking
  IdentityFile ${this.#path('user')}
Match originalhost shared
  ControlPath ${this.#path('master')}
Host closed
  HostName 127.0.0.1
  Port 1
Host *.invalid
  HostName nowhere.invalid
Host *
  HostName 127.0.0.1
  Port ${this.port}
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile ${this.knownHosts}
  GlobalKnownHostsFile /dev/null
`;
  }

  #serverConfig(environment: Record<string, string>): string {
    const set = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
    return `ListenAddress 127.0.0.1
Port ${this.port}
HostKey ${this.#path('host')}
AuthorizedKeysFile ${this.#path('authorized_keys')}
TrustedUserCAKeys ${this.#path('authority.pub')}
AuthenticationMethods publickey password
PidFile none
StrictModes no
UsePAM no
MaxStartups 100
${set.length > 0 ? `SetEnv ${set.join(' ')}\n` : ''}`;
  }

  #makeKey(name: string): void {
    this.#keygen('-t', 'ed25519', '-N', '', '-C', name, '-f', this.#path(name));
  }

  #keygen(...args: string[]): void {
    execFileSync('ssh-keygen', ['-q', ...args], { stdio: 'ignore' });
  }

  #path(name: string): string {
    return join(this.folder, name);
  }

  #read(name: string): string {
    return readFileSync(this.#path(name), 'utf8');
  }

  #write(name: string, text: string): void {
    writeFileSync(this.#path(name), text, { mode: 0o600 });
  }
}

/** Child processes of a process that run this program. */
export function childrenOf(pid: number, program: string): number[] {
  try {
    return execFileSync('pgrep', ['-x', '-P', String(pid), program], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .map(Number);
  } catch (error) {
    // pgrep exits with 1 if it finds none.
    if ((error as { status?: number }).status === 1) return [];
    throw error;
  }
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const answer = (is: boolean) => () => {
      socket.destroy();
      resolve(is);
    };
    socket.once('connect', answer(true)).once('error', answer(false));
  });
}

/** A port on which nobody listens, and most likely nobody will for a while. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  const server = createServer().listen(0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
