/** Tests ssh:// with a real sshd and, behind it, a server that replays a recorded job. */
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { FlashcoreError, type JobEvent } from '@flashcore/shared/contract';
import {
  inFull,
  childrenOf,
  JOB,
  missing,
  recordedEvents,
  replay,
  serve,
  Sshd,
  type FakeRunner,
  until,
} from '@flashcore/shared/testing';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { runOnHost } from '../remote/run-on-host.ts';
import { parseSshAddress } from '../remote/ssh-address.ts';
import { sshHost } from '../remote/ssh-command.ts';
import { connect, type Connection } from './connect.ts';
import { parseAddress } from './target.ts';

const EVENTS = recordedEvents(8);
const PROGRAM = path.resolve(import.meta.dirname, '../../dist/main.js');

let sshd: Sshd;
let runner: FakeRunner;
/** The stream sends the events up to this one and then waits. */
let last = EVENTS.length;
const connections: Connection[] = [];

beforeAll(async () => {
  if (missing('sshd')) return;
  sshd = await Sshd.start();
  const ready = ({ sequence }: JobEvent): Promise<void> => until(() => sequence <= last);
  const write = replay(EVENTS, ready);
  runner = await serve({ watchJob: (call) => void write(call, call.request.afterSequence) });
});
afterEach(() => {
  last = EVENTS.length;
  for (const { close } of connections.splice(0)) close();
});
afterAll(async () => {
  runner?.stop();
  await sshd?.[Symbol.asyncDispose]();
});

const environment = (more: Record<string, string> = {}): NodeJS.ProcessEnv => ({
  ...process.env,
  FLASHCORE_HOME: sshd.folder,
  FLASHCORE_SSH_CONFIG: sshd.config,
  ...more,
});

interface Reaching {
  readonly mayAsk?: boolean;
  readonly more?: Record<string, string>;
}

async function reach(address: string, { mayAsk = false, more }: Reaching = {}): Promise<Connection> {
  const connection = await connect({ runner: address, environment: environment(more), mayAsk });
  connections.push(connection);
  return connection;
}

const problemOf = async (address: string): Promise<string> => {
  const error: unknown = await reach(address).then(
    () => 'reached',
    (thrown: unknown) => thrown,
  );
  return error instanceof FlashcoreError ? `${error.reason} ${error.message}` : String(error);
};

const box = (): string => `ssh://box/${runner.port}`;
const ownSsh = (): number[] => childrenOf(process.pid, 'ssh');

const ownFolders = (): string[] =>
  readdirSync(tmpdir())
    .filter((name) => name.startsWith(`fa-ssh-${process.pid}-`))
    .map((name) => path.join(tmpdir(), name));

describe.skipIf(missing('sshd'))('ssh://', () => {
  test('reaches a runner that listens only on its host; closing leaves neither ssh nor a socket behind', async () => {
    const { client, description, close } = await reach(box());
    expect([client.address, description, client.host.apiVersion]).toEqual([box(), box(), 'v1']);
    expect(ownSsh()).toHaveLength(1);
    const [folder] = ownFolders();
    expect([folder!, path.join(folder!, 's')].map((file) => statSync(file).mode & 0o777)).toEqual([0o700, 0o600]);
    close();
    await expect.poll(ownSsh).toEqual([]);
    expect(ownFolders()).toEqual([]);
  });

  test.for(['ssh', "sshd's session"])(
    'a stream continues after the end of %s and yields each event once',
    async (which) => {
      const { client, revive } = await reach(box());
      const events: JobEvent[] = [];
      const told: string[] = [];
      last = 3;
      let back: Promise<unknown> | undefined;
      const onConnection = (state: string): void => {
        told.push(state);
        if (state === 'reconnecting') back = revive!();
      };
      for await (const event of client.watch(JOB, { onConnection })) {
        events.push(event);
        if (event.sequence !== 3n) continue;
        if (which === 'ssh') process.kill(ownSsh()[0]!, 'SIGKILL');
        else sshd.cutSessions();
        last = EVENTS.length;
      }
      await back;
      expect([events.map(({ sequence }) => sequence), told]).toEqual([
        EVENTS.map(({ sequence }) => sequence),
        ['reconnecting', 'connected'],
      ]);
    },
  );

  test('ssh ends when the program ends, even if the program is killed', { timeout: 90_000 }, async () => {
    last = 3;
    const program = spawn(process.execPath, [PROGRAM, 'watch', JOB, '--runner', box()], {
      env: environment(),
      stdio: 'ignore',
    });
    await expect.poll(() => childrenOf(program.pid!, 'ssh'), { timeout: 20_000 }).toHaveLength(1);
    await expect.poll(() => sshd.sessions().length, { timeout: 20_000 }).toBe(1);
    program.kill('SIGKILL');
    await expect.poll(() => sshd.sessions(), { timeout: 20_000 }).toEqual([]);
  });

  test('problems are reported at once, with a remedy', async () => {
    const wanted: readonly [address: string, text: RegExp][] = [
      [
        'ssh://box/1',
        /^RUNNER_UNREACHABLE No runner listens at 127\.0\.0\.1:1 on box: .*flashcore-runner serve.*ssh said: .*refused/,
      ],
      ['ssh://closed', /No sshd answers on closed: .*refused/],
      ['ssh://gpu.invalid', /No name server and no ssh configuration knows gpu\.invalid/],
      ['ssh://stranger', /stranger did not let ssh in: make "ssh stranger" work.*Permission denied/],
      [`ssh://restricted/${runner.port}`, /sshd on restricted forbids forwarding: set AllowTcpForwarding/],
      ['ssh://expired', /^UNAUTHENTICATED The ssh certificate .*expired-cert\.pub expired at 2020-01-02.*: renew it/],
    ];
    const found = await Promise.all(wanted.map(([address]) => problemOf(address)));
    wanted.forEach(([, text], at) => expect(found[at]).toMatch(text));
  });

  test('the error about a changed host key differs from the one about an unknown host', async () => {
    try {
      sshd.trustHost('stranger');
      expect(await problemOf(box())).toMatch(/The host key of box changed: .*ssh-keygen -f .*known_hosts.* -R/);
      writeFileSync(sshd.knownHosts, '');
      expect(await problemOf(box())).toMatch(/The host key of box is not known here: .*accept it once \(ssh box\)/);
    } finally {
      sshd.trustHost();
    }
  });

  test('ssh asks only if a person can answer', async () => {
    const yes = path.join(sshd.folder, 'yes.sh');
    writeFileSync(yes, '#!/bin/sh\necho yes\n', { mode: 0o700 });
    const more = { SSH_ASKPASS: yes, SSH_ASKPASS_REQUIRE: 'force' };
    try {
      writeFileSync(sshd.knownHosts, '');
      await expect(reach(box(), { more })).rejects.toThrow('is not known here');
      expect((await reach(box(), { mayAsk: true, more })).client.host.apiVersion).toBe('v1');
    } finally {
      sshd.trustHost();
    }
  });

  test.each(inFull(['asking', 'behind'], (name) => name === 'behind'))(
    'nobody is asked for the password of %s, and the error comes at once',
    async (name) => {
      const asked = path.join(sshd.folder, `asked-${name}`);
      const ask = path.join(sshd.folder, 'ask.sh');
      writeFileSync(ask, `#!/bin/sh\necho "$1" >> "${asked}"\nsleep 300\n`, { mode: 0o700 });
      const more = { SSH_ASKPASS: ask, SSH_ASKPASS_REQUIRE: 'force', DISPLAY: ':0' };
      const refused = /did not let ssh in: make "ssh \w+" work without a question.*Permission denied/;
      await expect(reach(`ssh://${name}/1`, { more })).rejects.toThrow(refused);
      const host = await sshHost(parseSshAddress(`ssh://${name}`), environment(more));
      const command = { command: 'true', limitMs: 60_000, mayAsk: false };
      await expect(runOnHost(host, command, environment(more))).rejects.toThrow(refused);
      expect(existsSync(asked)).toBe(false);
    },
  );

  test('after a wrong password ssh asks as often as usual, then the failure is reported', async () => {
    const wrong = path.join(sshd.folder, 'wrong.sh');
    writeFileSync(wrong, '#!/bin/sh\necho wrong\n', { mode: 0o700 });
    const more = { SSH_ASKPASS: wrong, SSH_ASKPASS_REQUIRE: 'force' };
    await expect(reach('ssh://asking/1', { mayAsk: true, more })).rejects.toThrow('did not let ssh in');
  });

  test("neither ssh's configuration nor its connection gets the token", async () => {
    const { config, folder } = sshd;
    const plain = readFileSync(config, 'utf8');
    const seen = path.join(folder, 'seen');
    const more = { FLASHCORE_TOKEN: 'secret' };
    try {
      writeFileSync(config, `Match exec "env >> ${seen}"\n${plain}`);
      await expect(reach(box(), { more })).rejects.toThrow('speaks plain text');
      const host = await sshHost(parseSshAddress('ssh://box'), environment(more));
      await runOnHost(host, { command: 'true', limitMs: 60_000, mayAsk: false }, environment(more));
    } finally {
      writeFileSync(config, plain);
    }
    const variables = readFileSync(seen, 'utf8');
    expect([variables.includes('FLASHCORE_HOME='), variables.includes('FLASHCORE_TOKEN')]).toEqual([true, false]);
  });

  test("uses ssh's master connection if there is one", async () => {
    execFileSync('ssh', ['-F', sshd.config, '-fNM', 'shared'], { stdio: 'ignore' });
    const before = sshd.sessions();
    expect((await reach(`ssh://shared/${runner.port}`)).client.host.apiVersion).toBe('v1');
    expect(await problemOf('ssh://shared/1')).toMatch(/No runner listens at 127\.0\.0\.1:1 on shared/);
    expect(sshd.sessions()).toEqual(before);
    execFileSync('ssh', ['-F', sshd.config, '-O', 'exit', 'shared'], { stdio: 'ignore' });
  });

  test('the error about a connection cut without a message says that the runner may use TLS', async () => {
    const server = createServer((socket) => void socket.once('data', () => socket.destroy()));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    expect(await problemOf(`ssh://box/${port}`)).toMatch(
      /cut the connection without a word: .*TLS, log in \(fa-tui login/,
    );
    server.close();
  });

  test("ssh's messages are shortened and cleaned", async () => {
    const fake = path.join(sshd.folder, 'fake');
    mkdirSync(fake);
    const script = String.raw`case " $* " in *" -G "*) exit 0;; esac
head -c 200000 /dev/zero | tr '\0' 'x' >&2; printf '\n\033]0;title\007\033[2Jhostile\342\200\256\n' >&2; exit 255`;
    writeFileSync(path.join(fake, 'ssh'), `#!/bin/sh\n${script}\n`, { mode: 0o700 });
    const reached = reach(box(), { more: { PATH: `${fake}:${process.env.PATH}` } });
    const { message } = await reached.then(
      () => new Error('reached'),
      (error: unknown) => error as Error,
    );
    expect(message).toMatch(/ssh said: x{299}… \| hostile$/);
  });

  test('without ssh the error says that it is missing', async () => {
    await expect(reach(box(), { more: { PATH: sshd.folder } })).rejects.toThrow('No ssh on this machine');
  });
});

test.each([
  ['ssh://-oProxyCommand=x', /not a name that ssh can take/],
  ['ssh://$(id)', /not a name that ssh can take/],
  ['ssh://ada@', /not a name that ssh can take/],
  ['ssh://ada:secret@box', /a password has no place in an address/],
  ['ssh://box:70000', /70000 is not a port of sshd/],
  ['ssh://box/0', /0 is not a port of a runner/],
  ["ssh://box/a'b", /neither a port nor the path of a socket/],
])('the address %s is refused', (text, why) => {
  expect(() => parseAddress(text)).toThrow(why);
});
