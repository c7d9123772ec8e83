import { spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { ALL_TESTS } from '@flashcore/shared/testing';
import { findGroups, groupName, noGroups, ownCgroup, type ProcessGroups } from './groups.ts';

const LIMITS = { memoryBytes: 2 * 1024 ** 3, processes: 100, cpus: 1.5 };

describe('the cgroup of this process', () => {
  const mountinfo = [
    '25 1 0:22 / /sys rw shared:2 - sysfs sysfs rw',
    '30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate',
  ].join('\n');

  test.each([
    [
      'in a systemd unit',
      '0::/system.slice/flashcore-runner.service\n',
      mountinfo,
      '/sys/fs/cgroup/system.slice/flashcore-runner.service',
    ],
    ['in a container with a cgroup namespace', '0::/\n', mountinfo, '/sys/fs/cgroup'],
    [
      'next to cgroups of version 1',
      '4:memory:/x\n0::/a\n',
      mountinfo.replace('/sys/fs/cgroup rw', '/sys/fs/cgroup/unified rw'),
      '/sys/fs/cgroup/unified/a',
    ],
    [
      'if only a part of the tree is mounted',
      '0::/docker/7/a\n',
      mountinfo.replace('0:26 / ', '0:26 /docker/7 '),
      '/sys/fs/cgroup/a',
    ],
  ])('is found %s', (_, cgroup, mounts, folder) => {
    expect(ownCgroup({ cgroup, mountinfo: mounts })).toEqual({ folder });
  });

  test.each([
    ['there are only cgroups of version 1', '4:memory:/x\n', mountinfo, /no cgroups of version 2/],
    ["it is outside the container's namespace", '0::/../x\n', mountinfo, /outside of what this container sees/],
    ['no cgroup file system is mounted', '0::/\n', '', /no cgroup file system/],
    [
      'only another part of the tree is mounted',
      '0::/b\n',
      mountinfo.replace('0:26 / ', '0:26 /docker/7 '),
      /no cgroup file system/,
    ],
  ])('is reported as missing if %s', (_, cgroup, mounts, problem) => {
    expect(ownCgroup({ cgroup, mountinfo: mounts })).toEqual({ problem: expect.stringMatching(problem) as string });
  });
});

test("groups are named by the data folder's identity, not by its path", () => {
  const root = mkdtempSync(join(tmpdir(), 'fc-groups-'));
  const [folder, moved] = [join(root, 'data'), join(root, 'moved')];
  mkdirSync(folder);
  const name = groupName(folder);
  renameSync(folder, moved);
  mkdirSync(folder);
  expect(groupName(moved)).toBe(name);
  expect(groupName(folder)).not.toBe(name);
  rmSync(root, { recursive: true });
});

describe('on a folder that imitates a cgroup', () => {
  const root = mkdtempSync(join(tmpdir(), 'fc-cgroup-'));
  afterAll(() => rmSync(root, { recursive: true }));
  let own: string;
  let count = 0;
  beforeEach(() => {
    own = join(root, `unit-${++count}`);
    mkdirSync(own);
    writeFileSync(join(own, 'cgroup.type'), 'domain');
    writeFileSync(join(own, 'cgroup.controllers'), 'cpuset cpu io memory pids\n');
  });

  const find = (): ProcessGroups =>
    findGroups({
      limits: LIMITS,
      dataDirectory: root,
      processId: 4711,
      self: { cgroup: `0::/unit-${count}\n`, mountinfo: `30 25 0:26 / ${root} rw - cgroup2 cgroup2 rw` },
    });
  const read = (...path: string[]): string => readFileSync(join(own, ...path), 'utf8').trim();

  test('the daemon moves to its own group, controllers are delegated, each box has all limits', () => {
    const groups = find();
    expect([groups.limited, groups.detail]).toEqual([
      true,
      'each has a cgroup of its own, all of whose processes end with it, with at most 2.0 GiB of memory, 100 processes, 1.5 processors',
    ]);
    const [name] = readdirSync(own).filter((each) => /^flashcore-[0-9a-f]{12}$/.test(each));
    expect(read(`${name}.daemon`, 'cgroup.procs')).toBe('4711');
    expect([read('cgroup.subtree_control'), read(name!, 'cgroup.subtree_control')]).toEqual(['+cpu', '+cpu']);
    using group = groups.make('executor-emulator');
    expect(group.path).toBe(join(own, name!, 'executor-emulator'));
    const limits = ['memory.max', 'memory.oom.group', 'pids.max', 'cpu.max'];
    expect(limits.map((file) => read(`${name}/executor-emulator`, file))).toEqual([
      String(2 * 1024 ** 3),
      '1',
      '100',
      '150000 100000',
    ]);
    // All boxes together leave a share for the daemon; no box can end another or use up its processes.
    expect(Number(read(name!, 'memory.max'))).toBeGreaterThanOrEqual(2 * 1024 ** 3);
    expect(read(name!, 'cpu.weight')).toBe('25');
    expect(
      readdirSync(join(own, name!)).filter((file) => /^(memory\.oom\.group|pids\.max|cpu\.max)$/.test(file)),
    ).toEqual([]);
    const { program, args } = group.enter({ program: '/bin/sh', args: ['-c', 'echo "$0 $1"', 'a  b', 'c'] });
    expect(spawnSync(program, args, { encoding: 'utf8' }).stdout).toBe('a  b c\n');
    expect(read(`${name}/executor-emulator`, 'cgroup.procs')).toBe('0');
  });

  test('a controller that the cgroup lacks sets no limit, and is reported', () => {
    writeFileSync(join(own, 'cgroup.controllers'), 'hugetlb\n');
    const groups = find();
    expect([groups.limited, groups.detail]).toEqual([
      false,
      `each has a cgroup of its own, all of whose processes end with it; all processes of one together have no limit on memory, processes, processors (the cgroup ${own} has no memory, pids, cpu)`,
    ]);
    expect(readdirSync(own).filter((name) => name.endsWith('.daemon'))).toEqual([]);
  });

  test('if controllers cannot be delegated, the daemon returns to its former group, and the reason is given', () => {
    mkdirSync(join(own, 'cgroup.subtree_control'));
    const groups = find();
    expect(groups.limited).toBe(false);
    expect(groups.detail).toContain(`no limit on memory (EISDIR at ${own}); processes (EISDIR at ${own})`);
    expect(read('cgroup.procs')).toBe('4711');
  });

  test('if no process can enter a group, the host is treated as one without cgroups', () => {
    find();
    const name = readdirSync(own).find((each) => /^flashcore-[0-9a-f]{12}$/.test(each))!;
    rmSync(join(own, name, 'try'), { recursive: true });
    mkdirSync(join(own, name, 'try', 'cgroup.procs', 'x'), { recursive: true });
    for (const path of ['cgroup.kill', 'cgroup.procs/cgroup.kill', 'cgroup.procs/x/cgroup.kill'])
      writeFileSync(join(own, name, 'try', path), '');
    expect(find().detail).toMatch(/^no cgroup limits .* can't be used \(no process can be put into a group/);
  });

  test('with a folder that is not a cgroup, or not ours, the host is treated as one without cgroups', () => {
    rmSync(join(own, 'cgroup.controllers'));
    expect(find().detail).toMatch(
      /^no cgroup limits .*: .* can't be used \(ENOENT.*\): a systemd unit has Delegate= for it$/,
    );
  });
});

test('without cgroups, a program is still the first to be killed when memory runs out', ({ skip }) => {
  if (process.platform !== 'linux') return skip('oom_score_adj is of Linux');
  const { program, args } = noGroups('a test')
    .make('x')
    .enter({ program: '/bin/cat', args: ['/proc/self/oom_score_adj'] });
  expect(spawnSync(program, args, { encoding: 'utf8' }).stdout.trim()).toBe('1000');
});

describe("on this host's cgroups", () => {
  const folder = mkdtempSync(join(tmpdir(), 'fc-groups-'));
  const groups = findGroups({
    limits: { memoryBytes: 256 * 1024 ** 2, processes: 20, cpus: 0.5 },
    dataDirectory: folder,
  });
  afterAll(() => {
    groups.close();
    rmSync(folder, { recursive: true });
  });
  test('children that left session, group and environment end with their group', async ({ skip }) => {
    const group = groups.make('children');
    if (group.path === undefined)
      return skip(`no cgroup here (install systemd, run the tests in a unit with Delegate=yes): ${groups.detail}`);
    const marker = `fc-left-${process.pid}`;
    // A former bug left 600 processes after a passed job. If the group limits processes, the test starts fewer.
    const children = ALL_TESTS ? 600 : 40;
    const script = `for i in $(seq ${groups.limited ? 8 : children}); do env -i setsid /bin/sh -c 'sleep 300; exit' ${marker} & done; echo up; wait`;
    const { program, args } = group.enter({ program: '/bin/sh', args: ['-c', script] });
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'] });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    const left = (): number =>
      existsSync(group.path!)
        ? readFileSync(join(group.path!, 'cgroup.procs'), 'utf8').trim().split('\n').filter(Boolean).length
        : 0;
    expect(left()).toBeGreaterThan(5);
    group[Symbol.dispose]();
    await expect.poll(left, { timeout: 5_000 }).toBe(0);
  });

  test('memory, processes and CPUs are limited', ({ skip }) => {
    if (!groups.limited)
      return skip(
        `no cgroup with limits here (install systemd, run the tests in a unit with Delegate=yes): ${groups.detail}`,
      );
    using group = groups.make('limited');
    const run = (script: string) => {
      const { program, args } = group.enter({ program: '/bin/sh', args: ['-c', script] });
      return spawnSync(program, args, { encoding: 'utf8' });
    };
    // The kernel's own counters.
    const counted = (file: string, name: string): number =>
      Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(readFileSync(join(group.path!, file), 'utf8'))?.[1]);

    expect(run('head -c 600000000 /dev/zero | tail -c 590000000 | wc -c').signal).toBe('SIGKILL');
    expect(counted('memory.events', 'oom_group_kill')).toBe(1);
    expect(run('for i in $(seq 40); do sleep 1 & done; wait').stderr).toMatch(/fork|Resource/);
    expect(counted('pids.events', 'max')).toBeGreaterThan(0);
    const before = { usedUs: counted('cpu.stat', 'usage_usec'), ms: performance.now() };
    run('timeout 2 sh -c "while :; do :; done"');
    const halfUs = ((performance.now() - before.ms) * 1000) / 2;
    expect(counted('cpu.stat', 'nr_throttled')).toBeGreaterThan(0);
    expect(counted('cpu.stat', 'usage_usec') - before.usedUs).toBeLessThan(1.2 * halfUs);
  });
});
