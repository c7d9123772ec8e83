import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { FlashcoreError } from '@flashcore/shared/contract';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { isRunning } from '@flashcore/shared/files';
import { expiredLogin } from './expired-login.ts';
import { runHook, type Hooks } from './hooks.ts';

let folder: string;
beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), 'fa-hooks-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const run = (command: readonly string[], hooks: Partial<Hooks> = {}) =>
  runHook({
    what: 'start',
    runner: 'ssh://box',
    command,
    hooks: { limitMinutes: 1, ...hooks },
    environment: { ...process.env, FLASHCORE_TOKEN: 'secret', FOLDER: folder },
  });

const problemOf = (command: readonly string[], hooks?: Partial<Hooks>): Promise<FlashcoreError> =>
  run(command, hooks).then(
    () => Promise.reject(new Error('it ended well')),
    (error: unknown) => error as FlashcoreError,
  );

test('a hook is a program with arguments: no shell interprets them, and our token is not in its environment', async () => {
  await run([
    process.execPath,
    '-e',
    'require("fs").writeFileSync(process.argv[1], process.argv[2])',
    path.join(folder, 'out'),
    '$(id); *',
  ]);
  expect(readFileSync(path.join(folder, 'out'), 'utf8')).toBe('$(id); *');
  await run(['sh', '-c', 'test -z "$FLASHCORE_TOKEN"']);
});

test.each([
  [
    ['flashcore-no-such-program'],
    /The start hook of ssh:\/\/box failed: correct it.*flashcore-no-such-program was not found/,
  ],
  // A missing program gives the same text if a folder of PATH can't be read.
  [['/dev/null'], /\/dev\/null was not found, or may not be run/],
  [['sh', '-c', 'echo quota exceeded >&2; exit 3'], /ended with status 3; it said: quota exceeded/],
  [['sh', '-c', String.raw`printf "\033]0;x\007\033[2Jbad\n"; exit 1`], /it said: bad$/],
  [['sh', '-c', 'kill -9 $$'], /was ended by SIGKILL/],
])('the error for %j says how the hook failed', async (command, message) => {
  expect(await problemOf(command)).toMatchObject({
    reason: 'RUNNER_UNREACHABLE',
    message: expect.stringMatching(message) as string,
  });
});

test("a hook's endless output is cut", async () => {
  const { message } = await problemOf(['sh', '-c', 'head -c 3000000 /dev/zero | tr "\\0" x; exit 1']);
  expect(message.length).toBeLessThan(1_000);
});

test('a hook is killed at its time limit, with all processes that it started', async () => {
  const { message } = await problemOf(['sh', '-c', 'sleep 60 & echo $! > "$FOLDER/pid"; wait'], {
    limitMinutes: 0.5 / 60,
  });
  expect(message).toMatch(/did not end within .* and was killed/);
  const pid = Number(readFileSync(path.join(folder, 'pid'), 'utf8'));
  await expect.poll(() => !isRunning(pid) || readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z')).toBe(true);
  expect(existsSync(path.join(folder, 'pid'))).toBe(true);
});

test("a process left behind that holds the hook's output open does not delay the end", async () => {
  await run(['sh', '-c', 'setsid sleep 60 & echo $! > "$FOLDER/pid"']);
  process.kill(Number(readFileSync(path.join(folder, 'pid'), 'utf8')), 'SIGKILL');
});

test.each([
  [
    'ERROR: (gcloud.compute.ssh) Reauthentication failed. cannot prompt during non-interactive execution.',
    "Google Cloud's login expired: renew it: gcloud auth login",
  ],
  [
    'The SSO session associated with this profile has expired or is otherwise invalid.',
    "AWS's login expired: renew it: aws sso login",
  ],
  [
    'An error occurred (ExpiredToken) when calling the StartInstances operation',
    "AWS's login expired: renew it: aws sso login",
  ],
  ['AADSTS70043: The refresh token has expired', "Azure's login expired: renew it: az login"],
  [
    'Error: your session has expired',
    'A login expired: renew it (the settings can name the command: login of its hooks)',
  ],
  ['the disk of the instance expired', undefined],
])('for the message %j, expiredLogin() returns %j', (text, wanted) => {
  expect(expiredLogin(text, undefined)).toBe(wanted);
});

test('an expired login is reported as such, with the renewal command from the settings', async () => {
  const hook = ['sh', '-c', 'echo "ERROR: (gcloud) Reauthentication required." >&2; exit 1'];
  expect(await problemOf(hook, { login: 'corp-login gpu' })).toMatchObject({
    reason: 'UNAUTHENTICATED',
    message: expect.stringMatching(
      /^Google Cloud's login expired: renew it: corp-login gpu; .*Reauthentication required/,
    ) as string,
  });
});
