/** A folder with Debian's smallest system, Node, npm, a C++ compiler and git, in which commands can be run. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';

const SUITE = 'bookworm';
const VARIANT = 'minbase';
const PACKAGES = ['g++', 'git'];

export interface User {
  readonly name: string;
  readonly id: number;
  /** The folder in which the checkout `flashcore` is. */
  readonly home: string;
}

/** Folders of this machine to mount, by the path in the root where they are mounted. */
export type Folders = Readonly<Record<string, string>>;

interface Command {
  readonly user: User;
  readonly command: string;
  /** How many seconds processes that the command leaves behind have to exit by themselves. */
  readonly grace: number;
  readonly environment?: Readonly<Record<string, string>>;
  readonly folders?: Folders;
}

export class DebianRoot implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'flashcore-root-'));

  constructor() {
    execFileSync('tar', ['-x', '-C', this.folder, '-f', minimalSystem()], { stdio: 'inherit' });
    copyFileSync('/etc/resolv.conf', join(this.folder, 'etc/resolv.conf'));
    // The content that every Debian installer writes.
    writeFileSync(join(this.folder, 'etc/hosts'), '127.0.0.1 localhost\n::1 localhost\n');
    this.#addNode();
  }

  /** Uses this machine's Node and npm, because Debian's own are too old. */
  #addNode(): void {
    const node = systemNode();
    copyFileSync(node, join(this.folder, 'usr/bin/node'));
    const npm = join(dirname(node), '../lib/node_modules/npm');
    if (!existsSync(npm)) throw new Error(`npm must be at ${npm}, beside ${node}; it is not there: install Node's npm`);
    cpSync(npm, join(this.folder, 'usr/lib/node_modules/npm'), { recursive: true, verbatimSymlinks: true });
    for (const name of ['npm', 'npx'])
      symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, join(this.folder, 'usr/bin', name));
    this.#addRegistry(node, join(npm, 'bin/npm-cli.js'));
  }

  /** Sets how npm reaches its registry, as on this machine: the address, a proxy, the trusted certificates. */
  #addRegistry(node: string, npm: string): void {
    const settings = JSON.parse(
      execFileSync(node, [npm, 'config', 'list', '--json'], { cwd: '/', encoding: 'utf8' }),
    ) as Partial<Record<string, string | null>>;
    const wanted = new Map(['registry', 'proxy', 'https-proxy'].map((name) => [name, settings[name]]));
    if (settings['cafile']) {
      const inRoot = '/usr/local/share/npm-certificates.pem';
      copyFileSync(settings['cafile'], join(this.folder, inRoot));
      wanted.set('cafile', inRoot);
    }
    mkdirSync(join(this.folder, 'usr/etc'));
    const lines = [...wanted].flatMap(([name, value]) => (value ? [`${name}=${value}\n`] : []));
    writeFileSync(join(this.folder, 'usr/etc/npmrc'), lines.join(''));
  }

  /** Installs Debian packages. */
  install(...names: string[]): void {
    const apt = (...args: string[]) =>
      execFileSync('chroot', [this.folder, 'apt-get', '-qq', '-o', 'Dpkg::Use-Pty=0', ...args], {
        stdio: ['ignore', 'ignore', 'inherit'],
        env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', DEBIAN_FRONTEND: 'noninteractive', DEBCONF_NOWARNINGS: 'yes' },
      });
    apt('update');
    apt('install', '--yes', '--no-install-recommends', ...names);
    apt('clean');
  }

  /**
   * Adds a user. The user's home has a fresh clone of this checkout's last commit, and npm's downloads from this
   * machine.
   */
  addUser({ name, id, home }: User): void {
    const inRoot = join(this.folder, home);
    const downloads = join(homedir(), '.npm/_cacache');
    mkdirSync(join(inRoot, '.npm'), { recursive: true });
    if (existsSync(downloads)) cpSync(downloads, join(inRoot, '.npm/_cacache'), { recursive: true });
    execFileSync('git', ['clone', '--quiet', '--no-local', join(import.meta.dirname, '../..'), `${inRoot}/flashcore`]);
    if (id === 0) return;
    appendFileSync(join(this.folder, 'etc/passwd'), `${name}:x:${id}:${id}::${home}:/bin/bash\n`);
    appendFileSync(join(this.folder, 'etc/group'), `${name}:x:${id}:\n`);
    execFileSync('chown', ['-R', `${id}:${id}`, inRoot]);
  }

  /** The program to start on this machine to run a command in the root, with its arguments and its environment. */
  enter({ user, command, grace, environment = {}, folders = {} }: Command): {
    program: string;
    args: string[];
    env: Record<string, string>;
  } {
    const script = join(import.meta.dirname, 'enter.sh');
    const bound = Object.entries(folders).flatMap(([inRoot, folder]) => [folder, inRoot]);
    return {
      program: 'unshare',
      args: [
        ...['--mount', '--pid', '--fork', '--kill-child', 'sh', script],
        ...[this.folder, String(user.id), user.home, String(grace), command, ...bound],
      ],
      env: {
        HOME: user.home,
        USER: user.name,
        LOGNAME: user.name,
        SHELL: '/bin/bash',
        TERM: 'xterm-256color',
        PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
        ...environment,
      },
    };
  }

  /** All files of the root, without those of other mounts. */
  files(): Set<string> {
    return new Set(
      execFileSync('find', ['.', '-xdev', '-printf', String.raw`%P\0`], {
        cwd: this.folder,
        encoding: 'utf8',
        maxBuffer: 256 * 1024 * 1024,
      }).split('\0'),
    );
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Returns an archive of the system. It is made once for each list of packages and kept in ~/.cache/flashcore/roots. */
function minimalSystem(): string {
  const options = [`--variant=${VARIANT}`, `--include=${PACKAGES.join(',')}`, SUITE];
  const kept = join(homedir(), '.cache/flashcore/roots');
  const digest = createHash('sha256').update(options.join(' ')).digest('hex').slice(0, 16);
  const archive = join(kept, `${digest}.tar`);
  if (existsSync(archive)) return archive;
  mkdirSync(kept, { recursive: true });
  for (const old of readdirSync(kept)) rmSync(join(kept, old));
  execFileSync('mmdebstrap', ['--quiet', ...options, `${archive}.part.tar`], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  renameSync(`${archive}.part.tar`, archive);
  return archive;
}

/** The Node of this machine, rather than the one that npm puts first in PATH. */
function systemNode(): string {
  const found = (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => !folder.includes('node_modules'))
    .map((folder) => join(folder, 'node'))
    .find((file) => existsSync(file));
  if (found === undefined) throw new Error('PATH must have a folder with Node, besides node_modules/.bin; it has none');
  return realpathSync(found);
}
