/**
 * The last released version works with this version: each version's fa-tui with the other version's runner, and each
 * version's runner on the other version's data folder. The released version is the commit that last wrote
 * proto/released.binpb (docs/versions.md).
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { temporaryFolder } from '@flashcore/runner/testing-daemon';
import { waitFor } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { earlierCheckout } from '../support/earlier-checkout.ts';
import { Home, ROOT } from '../support/home.ts';

const RUNNER = 'apps/runner/src/testing/fake-runner-main.ts';
const STRIP_TYPES = ['--experimental-transform-types', '--no-warnings'];

type Version = 'released' | 'this';

const stack = new DisposableStack();
const home = new Home();
const code: Record<Version, string> = { released: '', this: ROOT };
let data: Record<Version, string>;

beforeAll(() => {
  const { stdout } = spawnSync('git', ['log', '-1', '--format=%H', '--', 'proto/released.binpb'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  code.released = stack.use(earlierCheckout(stdout.trim())).folder;
  const folder = stack.use(temporaryFolder()).path;
  data = { released: join(folder, 'r'), this: join(folder, 't') };
}, 600_000);
afterAll(async () => {
  stack.dispose();
  await home[Symbol.asyncDispose]();
});

/** Starts a version's daemon on a data folder that has made-up jobs. */
async function serve(version: Version, folder: string): Promise<{ address: string } & AsyncDisposable> {
  const address = `unix:${folder}.s`;
  const child: ChildProcess = spawn(
    process.execPath,
    [...STRIP_TYPES, RUNNER, 'serve', '--data', folder, '--address', address],
    { cwd: code[version], stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let stderr = '';
  child.stderr!.on('data', (text: Buffer) => (stderr += String(text)));
  const exited = once(child, 'exit');
  await Promise.race([
    once(child.stdout!, 'data'),
    exited.then(() => {
      throw new Error(stderr);
    }),
  ]);
  return {
    address,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

/** Runs a version's fa-tui. */
function faTui(version: Version, address: string, ...args: string[]): { status: number | null; out: string } {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(code[version], 'apps/tui/bin/fa-tui.js'), '--runner', address, ...args],
    { cwd: code[version], env: home.env, encoding: 'utf8', timeout: 60_000 },
  );
  return { status, out: status === 0 && args.includes('--json') ? stdout : `${stdout}${stderr}` };
}

/** All that a version's fa-tui lists: the jobs with their names and outcomes, the experiments and the champions. */
function listed(version: Version, address: string): unknown {
  const read = (...args: string[]) => JSON.parse(faTui(version, address, ...args, '--json').out) as Lists;
  return {
    jobs: read('jobs').jobs!.map(({ name, label, outcome }) => [name, label, outcome]),
    experiments: read('history').experiments!.map(({ job, p50Us }) => [job.name, p50Us]),
    champions: read('champions').champions!.map(({ job, label, buildId }) => [job, label, buildId]),
  };
}
interface Lists {
  jobs?: { name: string; label: string; outcome: string }[];
  experiments?: { job: { name: string }; p50Us: number }[];
  champions?: { job: string; label: string; buildId: string }[];
}

/** Uses a runner as a user does: builds, runs, accepts and cancels. */
async function use(version: Version, address: string): Promise<void> {
  const faultless = (...args: string[]) => {
    const { status, out } = faTui(version, address, ...args);
    expect([status, out], args.join(' ')).toEqual([0, expect.any(String)]);
    return out;
  };
  faultless('host');
  faultless('build', 'ok');
  const { job } = JSON.parse(faultless('run', 'champion_5', '--json')) as { job: { name: string; outcome: string } };
  expect(job.outcome).toBe('OUTCOME_PASSED');
  faultless('accept', job.name, '--over', 'none');
  faultless('note', job.name, 'by another version');
  expect(faTui(version, address, 'run', 'error').status).toBe(3);
  const hanging = spawn(
    process.execPath,
    [join(code[version], 'apps/tui/bin/fa-tui.js'), '--runner', address, 'run', 'hang'],
    { cwd: code[version], env: home.env, stdio: 'ignore' },
  );
  const ended = once(hanging, 'exit');
  const name = await waitFor('a running job', () => {
    const { jobs } = JSON.parse(faultless('jobs', '--json')) as { jobs: { name: string; state: string }[] };
    return jobs.find(({ state }) => state === 'JOB_STATE_RUNNING')?.name;
  });
  faultless('cancel', name);
  expect(await ended).toEqual([3, null]);
}

test.each([
  ['released', 'this'],
  ['this', 'released'],
] as const)('a %s runner serves the fa-tui of %s version', { timeout: 300_000 }, async (runner, client) => {
  await using daemon = await serve(runner, data[runner]);
  await use(client, daemon.address);
  expect(listed(client, daemon.address)).toEqual(listed(runner, daemon.address));
});

test('this runner keeps everything that the released runner stored', { timeout: 300_000 }, async () => {
  let before: unknown;
  {
    await using daemon = await serve('released', data.released);
    before = listed('released', daemon.address);
  }
  await using daemon = await serve('this', data.released);
  expect(listed('this', daemon.address)).toEqual(before);
  expect(faTui('this', daemon.address, 'build', 'ok').status).toBe(0);
});

test(
  "the released runner reads this runner's data, or refuses it and changes nothing",
  { timeout: 300_000 },
  async () => {
    const file = join(data.this, 'flashcore.db');
    const database = new DatabaseSync(file);
    const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    database.close();
    const stored = readFileSync(file);
    try {
      await using daemon = await serve('released', data.this);
      expect(faTui('released', daemon.address, 'champions', '--json').out).toContain('champion_5');
      expect(faTui('released', daemon.address, 'build', 'ok').status).toBe(0);
    } catch (error) {
      expect((error as Error).message).toContain(`The database has schema version ${version}`);
      expect(readFileSync(file).equals(stored)).toBe(true);
    }
  },
);
