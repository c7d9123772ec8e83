/** Runners started by this program. They listen on loopback only, and their data folders are removed afterwards. */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitFor } from '@flashcore/shared/testing';
import { repositoryRoot } from '../support/repository-root.ts';

const START_LIMIT_MS = 300_000;

export type OwnRunner = { address: string } & AsyncDisposable;

/** Starts the bundled runner. `buildCache` is a folder of compiled kernels. Errors: with its log, if it ends. */
export async function startOwnRunner(buildCache?: string): Promise<OwnRunner> {
  const data = mkdtempSync(join(tmpdir(), 'fc-corpus-'));
  const main = join(repositoryRoot(), 'apps/runner/dist/main.js');
  const root = process.geteuid?.() === 0 ? ['--allow-root'] : [];
  const child = spawn(process.execPath, [main, 'serve', '--data', data, '--address', '127.0.0.1:0', ...root], {
    stdio: ['ignore', 'ignore', 'pipe'],
    ...(buildCache !== undefined && { env: { ...process.env, FLASHCORE_BUILD_CACHE: buildCache } }),
  });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM');
    await exited;
    rmSync(data, { recursive: true, force: true });
  };
  const info = join(data, 'runner.json');
  try {
    await waitFor(
      'the runner to serve',
      () => {
        if (child.exitCode !== null) throw new Error(`The runner must serve, and has ended: ${log.slice(-2000)}`);
        return existsSync(info) || undefined;
      },
      START_LIMIT_MS,
    );
  } catch (error) {
    await stop();
    throw error;
  }
  const { address } = JSON.parse(readFileSync(info, 'utf8')) as { address: string };
  return { address, [Symbol.asyncDispose]: stop };
}
