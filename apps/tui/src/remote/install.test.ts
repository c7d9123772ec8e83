/** Tests a bundle on a host behind a real sshd, with a runner started on demand. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { ALL_TESTS, missing, Sshd } from '@flashcore/shared/testing';
import { shellWord } from '@flashcore/shared/text';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isRunning } from '@flashcore/shared/files';
import { runProgram } from '../commands/program.ts';
import { readRunnerRecord } from '../connection/data-directory.ts';
import { digestOf, install, versionOf } from './install.ts';
import { parseSshAddress } from './ssh-address.ts';
import { sshHost } from './ssh-command.ts';
import { GreetingReader, greetingBytes } from './tunnel.ts';

// The tests need a host to install on, and a program that unpacks a bundle.
const NO_HOST = missing('sshd') || missing('xz-utils');

const ROOT = path.resolve(import.meta.dirname, '../../../..');

let folder: string;
let boxHome: string;
let sshd: Sshd;
let environment: NodeJS.ProcessEnv;

beforeAll(async () => {
  if (NO_HOST) return;
  folder = mkdtempSync(path.join(tmpdir(), 'fa-install-'));
  boxHome = path.join(folder, 'box');
  sshd = await Sshd.start({ FLASHCORE_HOME: boxHome, FLASHCORE_ALLOW_ROOT: '1' });
  environment = { ...process.env, FLASHCORE_HOME: path.join(folder, 'laptop'), FLASHCORE_SSH_CONFIG: sshd.config };
});
afterAll(async () => {
  if (NO_HOST) return;
  const pid = readRunnerRecord(boxHome)?.pid;
  if (pid !== undefined) process.kill(pid, 'SIGKILL');
  await sshd[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

/**
 * An archive with the bundle's two programs. They are this clone's programs or, if `script` is given, run the script.
 */
function bundle(name: string, script?: string): string {
  const stage = path.join(folder, name, 'flashcore');
  mkdirSync(stage, { recursive: true });
  for (const [program, app] of [
    ['fa-tui', 'tui'],
    ['flashcore-runner', 'runner'],
  ] as const)
    writeFileSync(
      path.join(stage, program),
      `#!/bin/sh\n${script ?? `exec ${shellWord(process.execPath)} ${shellWord(`${ROOT}/apps/${app}/dist/main.js`)} "$@"`}\n`,
      { mode: 0o755 },
    );
  const file = path.join(folder, `${name}.tar.xz`);
  execFileSync('tar', ['-C', path.join(folder, name), '-cJf', file, 'flashcore']);
  return file;
}

async function faTui(...args: string[]): Promise<{ code: number; text: string }> {
  let text = '';
  const stream = { isTTY: false, write: (piece: string) => void (text += piece) };
  const code = await runProgram(args, { stdin: {}, stdout: stream, stderr: stream, environment });
  return { code, text };
}

const current = (): string => readlinkSync(path.join(boxHome, 'bundles/current'));

describe.skipIf(NO_HOST)('fa-tui host install', () => {
  if (ALL_TESTS)
    test('copies the bundle to the host; its runner is started on demand and outlives the client', async () => {
      const listed = ['jobs', '--runner', 'ssh://box', '--start-runner'];
      expect(await faTui(...listed)).toMatchObject({
        code: 3,
        text: expect.stringContaining('flashcore is not installed on box: fa-tui host install ssh://box') as string,
      });
      const file = bundle('good');
      const first = await faTui('host', 'install', 'ssh://box', '--bundle', file);
      expect([first.code, current()]).toEqual([0, versionOf(await digestOf(file))]);
      expect(first.text).toMatch(
        /copying good\.tar\.xz[\s\S]*it runs there: 0\.1\.0[\s\S]*--runner ssh:\/\/box --start-runner/,
      );
      expect((await faTui('host', 'install', 'ssh://box', '--bundle', file)).text).toMatch(/was there already/);

      const started = await faTui(...listed);
      const { pid, address } = readRunnerRecord(boxHome)!;
      expect(started).toMatchObject({
        code: 0,
        text: expect.stringContaining(
          `(pid ${pid}); it ends when nobody uses it; its log: ${boxHome}/runner.log`,
        ) as string,
      });
      expect(isRunning(pid)).toBe(true);
      const again = await faTui('jobs', '--runner', `ssh://box${address.slice('unix:'.length)}`);
      expect(again).toMatchObject({ code: 0, text: expect.stringContaining('no jobs') as string });
      expect(readRunnerRecord(boxHome)?.pid).toBe(pid);
    });

  test('a bundle that arrives changed or does not run is not installed, and leaves nothing behind', async () => {
    const host = await sshHost(parseSshAddress('ssh://box'), environment);
    const before = existsSync(path.join(boxHome, 'bundles')) ? readdirSync(path.join(boxHome, 'bundles')) : [];
    const by = { environment, mayAsk: false };
    await expect(install(host, { file: bundle('changed'), digest: '0'.repeat(64) }, by)).rejects.toMatchObject({
      reason: 'DIGEST_MISMATCH',
    });
    const file = bundle('broken', 'echo "no such loader" >&2; exit 1');
    await expect(install(host, { file, digest: await digestOf(file) }, by)).rejects.toThrow(
      /does not run on box.*it said: no such loader/,
    );
    expect(readdirSync(path.join(boxHome, 'bundles'))).toEqual(before);
  });
});

test('the greeting is found after shell output, however the stream is cut into pieces', () => {
  const stream = Buffer.concat([
    Buffer.from('Welcome!\n'),
    greetingBytes({ started: true, pid: 7, log: '/l\u001b[31m' }),
    Buffer.from([0, 1, 2]),
  ]);
  const reader = new GreetingReader();
  const pieces = [...stream].map((byte) => Buffer.from([byte]));
  const found = pieces.map((piece) => reader.read(piece)).find((one) => one !== undefined);
  expect(found).toEqual({ greeting: { started: true, pid: 7, log: '/l' }, rest: Buffer.alloc(0) });
  expect(new GreetingReader().read(stream)?.rest).toEqual(Buffer.from([0, 1, 2]));
  expect(() => new GreetingReader().read(Buffer.alloc(70_000, 'x'))).toThrow('prints too much');
});
