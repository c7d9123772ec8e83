/**
 * The steps of docs/hosting.md for several people on one GPU host, done from scratch, word for word, on an address that
 * other machines can reach.
 */
import { copyFileSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';
import { missing } from '@flashcore/shared/testing';

const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

/** The commands of the block of docs/hosting.md after this mark, without comments. */
function steps(mark: string): string[][] {
  const [, block = ''] =
    new RegExp(`<!-- steps: ${mark} -->\n+\`\`\`sh\n([^]*?)\`\`\``).exec(
      readFileSync(join(ROOT, 'docs/hosting.md'), 'utf8'),
    ) ?? [];
  return block
    .trim()
    .split('\n')
    .map((line) => line.replace(/ +#.*/, '').split(' '));
}

// A container may have no network; then the loopback address plays the host, and the runner still listens on all
// addresses.
const hostAddress =
  Object.values(networkInterfaces())
    .flat()
    .find((one) => one?.family === 'IPv4' && !one.internal)?.address ?? '127.0.0.1';

test.skipIf(missing('openssl') || missing('bubblewrap'))(
  'the commands of docs/hosting.md let several people share one GPU host',
  { timeout: 120_000 },
  async () => {
    const [init, addToken, serve] = steps('host').map(([program, ...args]) => {
      expect(program).toBe('flashcore-runner');
      return args.map((arg) => arg.replace('gpu-box', hostAddress));
    });
    expect(home.runnerCommand(init!)).toMatchObject({ exitCode: 0, stderr: '' });
    const token = home.runnerCommand(addToken!).stdout.trim();
    expect(token).toMatch(/^fct_[\w-]{43}$/);
    expect(serve!.slice(0, 3)).toEqual(['serve', '--address', '0.0.0.0:50051']);
    const { address: listening } = await home.startDaemonAt('0.0.0.0:0', ...serve!.slice(3));
    const port = listening.split(':').at(-1)!;

    // The folder of another machine, which has only ca.crt.
    const laptop = join(home.path, 'laptop');
    mkdirSync(laptop);
    copyFileSync(join(home.path, 'tls/ca.crt'), join(laptop, 'ca.crt'));
    const env = { HOME: laptop, FLASHCORE_HOME: join(laptop, '.flashcore'), XDG_CONFIG_HOME: '' };
    const address = `${hostAddress}:${port}`;
    const here: Record<string, string> = { 'gpu-box:50051': address, 'gpu-box': hostAddress };
    const [login, build] = steps('client').map(([, ...args]) => args.map((arg) => here[arg] ?? arg));
    const client = (args: string[], input = '') => home.faTui(args, { env, input, cwd: laptop });

    expect(client(['--runner', address, 'host'])).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining('fa-tui login') as string,
    });
    expect(client(login!, 'fct_wrong\n')).toMatchObject({
      exitCode: 3,
      stdout: '',
      stderr: expect.stringContaining('flashcore-runner token add') as string,
    });
    expect(client(['login', address], `${token}\n`)).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining('--tls-ca ca.crt') as string,
    });
    expect(client(login!, `${token}\n`)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^logged in to .* as ada, submitter\n$/) as string,
      stderr: expect.not.stringContaining('Warning') as string,
    });
    const kept = join(laptop, '.flashcore/config/flashcore/runners.json');
    expect(statSync(kept).mode & 0o777).toBe(0o600);
    expect(client(build!)).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('PASSED') as string });
    expect(client(['--runner', hostAddress, 'jobs']).stdout).toMatch(/owner[^]* ada /);
    expect(client(['--runner', hostAddress, 'host']).stdout).toContain('ada, submitter');
    expect(client(['runners']).stdout).toContain(`${address}  token`);
    expect(client(['runners', '--json']).stdout).not.toContain('fct_');

    expect(home.runnerCommand(['token', 'revoke', 'ada']).exitCode).toBe(0);
    expect(client(['--runner', hostAddress, 'jobs'])).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining('no longer') as string,
    });
    expect(client(['logout', hostAddress]).exitCode).toBe(0);
    expect(readFileSync(kept, 'utf8')).toBe('{}\n');
  },
);
