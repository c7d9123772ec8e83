import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Logger } from '../log.ts';
import type { Box, BoxPolicy } from './box.ts';
import { Child } from './child.ts';
import { BoxFinder, findBox } from './find-box.ts';

let box: Box;
let folder: string;
beforeAll(async () => {
  box = await findBox('auto');
  folder = mkdtempSync(join(tmpdir(), 'fc-box-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('with --isolation none a program runs unboxed, and the reason is given', async () => {
  const none = await findBox('none');
  expect([none.kind, none.wrap('cc', ['-c'], { kind: 'compiler', limits: { fileBytes: 1 } })]).toEqual([
    'none',
    { program: 'cc', args: ['-c'] },
  ]);
  expect(none.detail).toBe(
    'switched off by --isolation none; compilers and workers run with the rights of the runner: send it only code that you trust',
  );
});

test('if bwrap cannot run, there is no box, the reason is given, and no process is killed', async () => {
  const programs = mkdtempSync(join(tmpdir(), 'fc-bwrap-'));
  writeFileSync(join(programs, 'bwrap'), '\0 no program', { mode: 0o755 });
  vi.stubEnv('PATH', `${programs}:${process.env['PATH']}`);
  try {
    const none = await findBox('auto');
    expect([none.kind, none.detail]).toEqual(['none', expect.stringMatching(/^bubblewrap does not work here: /)]);
  } finally {
    vi.unstubAllEnvs();
    rmSync(programs, { recursive: true });
  }
});

test('the description of a box lists what it protects, or says why no box is available', () => {
  expect(box.detail).toMatch(
    box.kind === 'none' ? /; compilers and workers run with the rights of the runner/ : /no network/,
  );
});

/** Runs a shell script in the box. */
function run(script: string, policy: Partial<BoxPolicy> = {}) {
  const { program, args } = box.wrap('/bin/sh', ['-c', script], {
    kind: 'compiler',
    limits: { fileBytes: 1e6, cpuSeconds: 1 },
    ...policy,
  });
  const { status, stdout, stderr } = spawnSync(program, args, {
    encoding: 'utf8',
    timeout: 10_000,
    env: { PATH: process.env['PATH'] },
  });
  return { status, out: stdout.trim(), err: stderr.trim() };
}

test('a boxed program sees no foreign file, no network and no other process, and can write only to its folder and /tmp', ({
  skip,
}) => {
  if (box.kind === 'none') return skip(box.detail);
  writeFileSync(join(folder, 'source'), 'mine');
  expect(run('cat source && echo out >made && cat made && touch /tmp/x && echo tmp', { folder })).toMatchObject({
    status: 0,
    out: 'mineout\ntmp',
  });
  expect(readFileSync(join(folder, 'made'), 'utf8')).toBe('out\n');
  expect(run(`ls ${folder} /root /home /etc/passwd ${import.meta.dirname} 2>/dev/null`).out).toBe('');
  expect(run(`cat ${folder}/source; touch ${folder}/no`, { readable: [folder] })).toMatchObject({
    out: 'mine',
    err: expect.stringMatching(/Read-only/) as string,
  });
  expect(run('ls /proc | grep -c "^[0-9]"').out).toMatch(/^[1-9]$/);
  expect(run('touch /usr/x || cat /proc/net/route | tail -n +2').out).toBe('');
});

test('a boxed program is user nobody without rights, and cannot write kernel settings or devices', ({ skip }) => {
  if (box.kind === 'none') return skip(box.detail);
  expect(run('id -u; grep CapEff /proc/self/status').out).toMatch(/^65534\nCapEff:\s0{16}$/);
  // core_pattern names a program that the host's kernel starts as root.
  const kept = readFileSync('/proc/sys/kernel/core_pattern', 'utf8');
  expect(run('echo "|/tmp/x" >/proc/sys/kernel/core_pattern').status).not.toBe(0);
  expect(readFileSync('/proc/sys/kernel/core_pattern', 'utf8')).toBe(kept);
  expect(run('touch /dev/made').status).not.toBe(0);
  expect(run('head -c 900000000 /dev/zero >/dev/shm/large; echo $?', { limits: { fileBytes: 1e9 } }).out).not.toBe('0');
});

test('a boxed program gets no nested user namespace, if bubblewrap can prevent it', ({ skip }) => {
  if (box.kind === 'none') return skip(box.detail);
  const { args } = box.wrap('/bin/sh', [], { kind: 'compiler', limits: { fileBytes: 1e6 } });
  if (!args.includes('--disable-userns')) return skip('this bubblewrap is older than 0.8');
  expect(run('unshare -U true').status).not.toBe(0);
});

test('a boxed program has limits on CPU time and files', ({ skip }) => {
  if (box.kind === 'none') return skip(box.detail);
  expect(run('while :; do :; done').status).toBe(128 + 9);
  expect(run('head -c 2000000 /dev/zero >/tmp/large; ls -l /tmp/large', { limits: { fileBytes: 4096 } }).out).toContain(
    ' 4096 ',
  );
});

test('a program that the box cannot reach runs unboxed, and the detail names it', async ({ skip }) => {
  if (box.kind === 'none') return skip(box.detail);
  const own = await findBox('auto');
  const program = join(folder, 'cc');
  writeFileSync(program, '#!/bin/sh\nexit 0\n', { mode: 0o755 });
  const policy: BoxPolicy = { kind: 'compiler', limits: { fileBytes: 1e6 } };
  expect([
    (await own.for(program, [], policy)).kind,
    (await own.for(program, [], policy)).kind,
    (await own.for('/bin/sh', ['-c', ':'], policy)).kind,
  ]).toEqual(['none', 'none', 'bubblewrap']);
  expect(own.detail).toContain(`${program} does not run in the box`);
  await expect((await findBox('required')).for(program, [], policy)).rejects.toMatchObject({
    reason: 'DEVICE_UNAVAILABLE',
  });
});

test('a killed box leaves no process, not even one that left its group', async ({ skip }) => {
  if (box.kind === 'none') return skip(box.detail);
  const mark = `${process.pid}7351`;
  const { program, args } = box.wrap('/bin/sh', ['-c', `setsid sleep ${mark} & echo up; wait`], {
    kind: 'compiler',
    limits: { fileBytes: 1e6 },
  });
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  const sleeping = () =>
    readdirSync('/proc')
      .filter((pid) => /^\d+$/.test(pid))
      .some((pid) => commandOf(pid).startsWith(`sleep\0${mark}\0`));
  await expect.poll(sleeping, { timeout: 2_000, interval: 10 }).toBe(true);
  child.kill('SIGKILL');
  await expect.poll(sleeping, { timeout: 2_000, interval: 10 }).toBe(false);
});

test('a box that is killed during setup does not continue', async ({ skip }) => {
  if (box.kind === 'none') return skip(box.detail);
  const { program, args } = box.wrap('/bin/sleep', ['20'], { kind: 'compiler', limits: { fileBytes: 1e6 } });
  for (let round = 0; round < 100; round += 1) {
    const child = new Child(program, args, { ownGroup: true, endsWithRunner: true, stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.resume();
    child.stderr.resume();
    // eslint-disable-next-line flashcore/no-fixed-wait -- kills at a varying moment of the setup
    await new Promise((resolve) => setTimeout(resolve, round % 8));
    child.kill();
    expect(await child.closedWithin(2_000), `killed after ${round % 8} ms`).toBe(true);
  }
});

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return '';
    throw error;
  }
}

test('a box with devices shows only their nodes, /sys and the host’s /proc, and has no network', ({ skip }) => {
  if (box.kind === 'none') return skip(box.detail);
  const policy = { devices: ['/dev/full', '/dev/loop-control'].filter((path) => existsSync(path)) };
  const { out, err } = run(
    'for path in /dev/full /sys/kernel /etc/passwd /root /home; do test -e $path && echo $path; done; echo x >/dev/full; tail -n +2 /proc/net/route; touch /sys/x',
    policy,
  );
  expect(out.split('\n')).toEqual(['/dev/full', '/sys/kernel']);
  expect(err).toMatch(/I\/O error|No space left/);
  expect(err).toMatch(/\/sys\/x.*(Read-only|denied|not permitted)/);
  // The worker of a root runner is also nobody, and can't write files in /proc that affect the whole host.
  const { out: rights } = run(
    'id -u; grep CapEff /proc/self/status; for path in sys/kernel/core_pattern sysrq-trigger; do (: >>/proc/$path) || echo closed; done',
    policy,
  );
  expect(rights).toMatch(/^65534\nCapEff:\s0{16}\nclosed\nclosed$/);
});

test("a probe that takes too long is repeated; a failure is reported, and not cached for the runner's life", async ({
  skip,
}) => {
  if (box.kind === 'none') return skip(box.detail);
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  const slow = (times: number): void => writeFileSync(join(bin, 'left'), String(times));
  // The real bwrap, but the first calls hang.
  writeFileSync(
    join(bin, 'bwrap'),
    `#!/bin/sh\nleft=$(cat ${bin}/left); if [ "$left" -gt 0 ]; then echo $((left - 1)) >${bin}/left; exec sleep 30; fi\nexec ${realBwrap()} "$@"\n`,
    { mode: 0o755 },
  );
  vi.stubEnv('PATH', `${bin}:${process.env['PATH']}`);
  const warnings: string[] = [];
  const logger = { warn: ({ problem }: { problem: string }) => warnings.push(problem) } as unknown as Logger;
  const finder = new BoxFinder({ wanted: 'auto', logger, probeLimitMs: 1_000, failureKeptMs: 0 });
  slow(2);
  const found = await finder.find();
  slow(3);
  const tries = [
    await found.for('/bin/sh', ['-c', ':'], { kind: 'compiler', limits: { fileBytes: 1e6 } }),
    await found.for('/bin/sh', ['-c', ':'], { kind: 'compiler', limits: { fileBytes: 1e6 } }),
  ];
  vi.unstubAllEnvs();
  expect([found.kind, ...tries.map(({ kind }) => kind), warnings]).toEqual([
    'bubblewrap',
    'none',
    'bubblewrap',
    ['it did not end within 1 s, 3 times'],
  ]);
  expect(found.detail).not.toContain('/bin/sh does not run in the box');
});

const realBwrap = (): string =>
  ['/usr/bin/bwrap', '/bin/bwrap', '/usr/local/bin/bwrap'].find((path) => existsSync(path)) ?? 'bwrap';
