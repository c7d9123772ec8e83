/**
 * `npm run bare-root`: runs the README's two commands, word for word, on typical machines. A minimal Debian with only
 * Node, npm, g++ and git runs them as root. With openssl added, it runs them as an ordinary user whose home needs
 * quoting and whose PATH has a folder that only root may read. On that machine the tests that depend on a compiler run
 * again, with clang and with CUDA. So do the tests that need sshd, which treats an ordinary user differently from root.
 * The first machine's tests compile all kernels. The second machine's tests find these compilations by their digests.
 * With `-- clang` or `-- nvcc` after the command, only this one of the two compilers is tried.
 *
 * Fails if a test fails, if a skipped test names no package, or if processes or files are left behind. Needs root,
 * mmdebstrap, Debian's mirror and the npm registry.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { HostProgram } from '@flashcore/shared/testing';
import { isLeftOut, packagesOf, testFiles } from '../long-tests.ts';
import { Terminal } from '../terminal.ts';
import { DebianRoot, type Folders, type User } from './debian-root.ts';
import { leftFiles, readmeCommands, TESTS_CACHE } from './readme-commands.ts';

const CUDA = '/usr/local/cuda';
const ROOT: User = { name: 'root', id: 0, home: '/root' };
const COMPILERS = ['clang', 'nvcc'] as const;
type Compiler = (typeof COMPILERS)[number];
/** The compilers to try. */
const tried = compilersOf(process.argv.slice(2));
/** A folder in PATH that only root may read. `su` causes this if it keeps root's PATH. */
const LOCKED_FOLDER = '/root/bin';
const ANNA: User = { name: 'anna', id: 1000, home: `/home/it's 100% "anna" öz` };
/** An embedded runner ends by itself 30 s after its last client. */
const RUNNER_GRACE_SECONDS = 45;
const INSTALL_LIMIT_MS = 15 * 60_000;
const PASSED = /passed: /;

type Enter = ReturnType<DebianRoot['enter']>;

/** A Debian system with one user. */
interface Machine extends Disposable {
  readonly root: DebianRoot;
  readonly user: User;
  readonly title: string;
}

using bare = machine('bare', ROOT);
using withOpenssl = machine('with openssl', ANNA, 'openssl');
const { start, test } = readmeCommands();
// Both start in parallel, because half of the time is spent waiting for npm and for the embedded runner, which ends
// some time after its last client.
const started = await Promise.allSettled([bare, withOpenssl].map((one) => startOn(one, start)));
for (const one of started) if (one.status === 'rejected') throw one.reason;
const failures: string[] = [];
runOn(bare, test, test);
shareCompilations(bare, withOpenssl);
runOn(withOpenssl, test, test);
const withCompiler: Record<Compiler, () => void> = {
  clang: () => {
    timed('clang-19', () => withOpenssl.root.install('clang-19'));
    testsThatNeed(withOpenssl, 'clang');
  },
  nvcc: () => {
    if (existsSync(`${CUDA}/bin/nvcc`)) testsThatNeed(withOpenssl, 'nvcc', { [CUDA]: CUDA });
    else console.log(`== nvcc: not tried, this machine has no ${CUDA}/bin/nvcc`);
  },
};
for (const compiler of COMPILERS)
  if (tried.includes(compiler)) withCompiler[compiler]();
  else console.log(`== ${compiler}: not tried, the command names ${tried.join(', ')}`);
timed('sshd', () => withOpenssl.root.install('openssh-server', 'openssh-client', 'procps', 'xz-utils'));
testsThatNeed(withOpenssl, 'sshd');
if (failures.length > 0) {
  console.error(failures.map((text) => `== FAILED ${text}`).join('\n'));
  process.exitCode = 1;
}

/** The compilers that the command line names; all if it names none. */
function compilersOf(names: readonly string[]): readonly Compiler[] {
  const unknown = names.find((name) => !COMPILERS.some((compiler) => compiler === name));
  if (unknown !== undefined) {
    console.error(`A compiler must be one of ${COMPILERS.join(', ')}, got "${unknown}"`);
    process.exit(2);
  }
  return names.length === 0 ? COMPILERS : COMPILERS.filter((compiler) => names.includes(compiler));
}

/** Makes a root with a user. The user has a fresh clone, and npm's downloads from this machine. */
function machine(title: string, user: User, ...packages: readonly string[]): Machine {
  return timed(`a minimal Debian with g++, git, Node and npm: ${title}`, () => {
    const root = new DebianRoot();
    if (packages.length > 0) root.install(...packages);
    root.addUser(user);
    return { root, user, title: `${title}, ${user.name}`, [Symbol.dispose]: () => root[Symbol.dispose]() };
  });
}

/**
 * Runs the README's first command, which opens the terminal program. The program runs an experiment and is then quit.
 */
async function startOn({ root, user, title }: Machine, command: string): Promise<void> {
  const leaveNothing = leavesNothing(root, user);
  const entered = root.enter({ user, command, grace: RUNNER_GRACE_SECONDS, environment: environmentOf(user) });
  await timed(`${title}: ${command}`, () => inTerminal(entered));
  leaveNothing();
}

/** Runs a command that ends by itself. Failures are reported at the end, so that the other machine still runs. */
function runOn({ root, user, title }: Machine, what: string, command: string, folders: Folders = {}): void {
  // Makes the mount points beforehand, so that they do not count as files that the command has left.
  for (const inRoot of Object.keys(folders)) mkdirSync(join(root.folder, inRoot), { recursive: true });
  const leaveNothing = leavesNothing(root, user);
  const entered = root.enter({ user, command, grace: 2, environment: environmentOf(user), folders });
  for (const part of [() => timed(`${title}: ${what}`, () => toItsEnd(entered, what)), leaveNothing])
    try {
      part();
    } catch (error) {
      failures.push(`${title}: ${(error as Error).message}`);
    }
}

function environmentOf({ id }: User): Readonly<Record<string, string>> {
  const skips = { FLASHCORE_ALLOW_SKIPS: 'packages' };
  if (id === 0) return skips;
  return { ...skips, FLASHCORE_TESTS_CACHE: TESTS_CACHE, PATH: `${LOCKED_FOLDER}:/usr/local/bin:/usr/bin:/bin` };
}

/** Returns a function to call after the user's commands. It throws if the commands left unexpected files. */
function leavesNothing(root: DebianRoot, user: User): () => void {
  const before = root.files();
  return () => {
    const left = leftFiles(before, root.files(), user);
    if (left.length > 0) throw new Error(`The commands must leave no files, got ${left.slice(0, 20).join(', ')}`);
    refuseChanges(root, user);
  };
}

/** Runs the terminal program until its experiment has passed, and then quits it. */
async function inTerminal({ program, args, env }: Enter): Promise<void> {
  const terminal = new Terminal(program, args, { columns: 120, rows: 40, env });
  const ended = terminal.exit.then((code) => {
    throw new Error(`must run until q is pressed, but ended with code ${code}:\n${terminal.history().join('\n')}`);
  });
  try {
    await Promise.race([terminal.waitFor(PASSED, INSTALL_LIMIT_MS), ended]);
  } catch (error) {
    terminal.kill('SIGKILL');
    throw error;
  }
  ended.catch(() => undefined);
  console.log(terminal.text());
  terminal.type('q');
  const code = await terminal.exit;
  if (code !== 0) throw new Error(`It must end with code 0, got ${code}`);
}

function toItsEnd({ program, args, env }: Enter, what: string): void {
  const { status, error } = spawnSync(program, args, { env, stdio: ['ignore', 'inherit', 'inherit'] });
  if (error) throw error;
  if (status !== 0) throw new Error(`${what} must end with code 0, got ${status}`);
}

/** Throws if git does not ignore everything that the commands made within the clone. */
function refuseChanges(root: DebianRoot, { home }: User): void {
  const clone = join(root.folder, home, 'flashcore');
  const changed = execFileSync(
    'git',
    ['--no-optional-locks', '-c', `safe.directory=${clone}`, 'status', '--porcelain'],
    {
      cwd: clone,
      encoding: 'utf8',
    },
  );
  if (changed !== '') throw new Error(`The commands must leave the clone as it was, got\n${changed}`);
}

/** Gives the tests of another machine the kernels and libraries that a machine's tests have compiled. */
function shareCompilations(from: Machine, to: Machine): void {
  const made = join(from.root.folder, from.user.home, 'flashcore/node_modules/.cache/flashcore-tests');
  const shared = join(to.root.folder, TESTS_CACHE);
  for (const part of ['builds', 'libraries'])
    if (existsSync(join(made, part))) cpSync(join(made, part), join(shared, part), { recursive: true });
  mkdirSync(shared, { recursive: true });
  execFileSync('chown', ['-R', `${to.user.id}:${to.user.id}`, shared]);
}

/** Runs the files of `npm test` in which a test was skipped until now, because this package was missing. */
function testsThatNeed(on: Machine, added: HostProgram, folders: Folders = {}): void {
  const files = testFiles().filter(({ path, text }) => !isLeftOut(path) && packagesOf(text).includes(added));
  const command = `npx vitest run ${files.map(({ path }) => path).join(' ')}`;
  runOn(on, `${files.length} test files, with ${added}`, command, folders);
}

/** Does the work. Prints its title and how long it took. */
function timed<Result>(title: string, work: () => Result): Result {
  console.log(`== ${title}`);
  const startedMs = performance.now();
  const say = (): void => console.log(`== ${title}: ${((performance.now() - startedMs) / 1000).toFixed(0)} s`);
  const result = work();
  if (!(result instanceof Promise)) say();
  else void result.then(say, () => undefined);
  return result;
}
