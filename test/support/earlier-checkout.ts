import { spawnSync } from 'node:child_process';
import { globSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { temporaryFolder } from '@flashcore/runner/testing-daemon';
import { ROOT } from './home.ts';

/**
 * Checks out the code of a commit into a temporary folder, with its own dependencies, and builds it.
 *
 * @throws Error if the commit is unknown or does not install.
 */
export function earlierCheckout(commit: string): { folder: string } & Disposable {
  using stack = new DisposableStack();
  const folder = join(stack.use(temporaryFolder()).path, 'earlier');
  runIn(ROOT, ['git', 'worktree', 'add', '--quiet', '--detach', folder, commit]);
  stack.defer(() => {
    rmSync(folder, { recursive: true, force: true });
    runIn(ROOT, ['git', 'worktree', 'prune']);
  });
  installDependencies(folder);
  runIn(folder, ['npm', 'run', 'build', '--silent']);
  const kept = stack.move();
  return { folder, [Symbol.dispose]: () => kept.dispose() };
}

/**
 * Copies this checkout's dependencies if both checkouts have the same package-lock.json, because copying takes a tenth
 * of the time of an installation.
 */
function installDependencies(folder: string): void {
  const [ours, its] = [ROOT, folder].map((checkout) => readFileSync(join(checkout, 'package-lock.json'), 'utf8'));
  if (ours === its) {
    const pattern = '{node_modules,{apps,libs}/*/node_modules,{test,tools}/node_modules}';
    for (const installed of globSync(pattern, { cwd: ROOT }))
      runIn(ROOT, ['cp', '-a', installed, join(folder, dirname(installed))]);
  } else {
    // --ignore-scripts skips the builds at the end of `npm ci`, which are not used.
    runIn(folder, ['npm', 'ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']);
  }
}

/**
 * Runs a program in a folder and returns its exit code.
 *
 * @throws Error with the output if the exit code is not one of the expected ones.
 */
export function runIn(folder: string, [command, ...args]: readonly string[], expected = [0]): number {
  // npm starts the first Node in PATH. That must be the Node of this process, not an older one of the machine.
  const environment = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH']}` };
  const { status, error, stdout, stderr } = spawnSync(command!, args, {
    cwd: folder,
    env: environment,
    encoding: 'utf8',
  });
  if (status !== null && expected.includes(status)) return status;
  const said = error?.message ?? (stderr.trim() || stdout.trim());
  throw new Error(`${[command, ...args].join(' ')} in ${folder} ended with ${status}:\n${said}`);
}
