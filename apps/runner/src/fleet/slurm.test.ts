/** Slurm's commands are replaced by shell scripts that answer as Slurm does. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { temporaryFolder } from '../testing/test-runner.ts';
import { parseOptions } from '../options.ts';
import { parseFleet } from './fleet-file.ts';
import { checkSlurm, pilotScript, Slurm } from './slurm.ts';

const FILE = parseFleet(
  `
listen: 127.0.0.1:1
reach: a:1
bundle: /opt/flashcore
partitions:
  - { partition: gpu, device: NVIDIA L4, max: 3 }
`,
  'fleet.yaml',
);
const BOXED = `
listen: 127.0.0.1:7000
reach: head:7000
bundle: /opt/flashcore
scratch: /scratch/flashcore
tls_ca: /opt/ca.crt
partitions: [{ partition: gpu, device: NVIDIA H200, max: 2 }]
`;
const VERSION = 'slurm 22.05.8';

afterEach(() => vi.unstubAllEnvs());

/** Puts commands into PATH that record their arguments and then run a line of shell to answer. */
function fakeSlurm(answers: Record<string, string>) {
  const folder = temporaryFolder();
  const bin = join(folder.path, 'bin');
  const log = join(folder.path, 'asked');
  mkdirSync(bin);
  writeFileSync(log, '');
  for (const [program, answer] of Object.entries(answers))
    writeFileSync(join(bin, program), `#!/bin/sh\necho "$(basename "$0") $*" >> '${log}'\n${answer}\n`, {
      mode: 0o700,
    });
  vi.stubEnv('PATH', `${bin}:/usr/bin:/bin`);
  return {
    path: folder.path,
    asked: () => readFileSync(log, 'utf8').trim().split('\n'),
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

const sinfo = (partitions: string, version = VERSION): Record<string, string> => ({
  sinfo: `if [ "$1" = --version ]; then echo '${version}'; else ${partitions}; fi`,
});

test('a missing or old Slurm and an unknown partition or GRES are refused with what to do', async () => {
  vi.stubEnv('PATH', '/nowhere');
  await expect(checkSlurm(FILE)).rejects.toThrow('Install Slurm’s commands');
  for (const [partitions, version, message] of [
    [`echo 'gpu|gpu:l4:4'`, 'slurm 19.05.5', 'Update Slurm to 20.02 or later: this is slurm 19.05.5'],
    [`printf 'debug|gpu:4\\nbig|gpu:8\\n'`, VERSION, 'partition gpu: must be one of debug, big'],
    [`echo 'gpu|(null)'`, VERSION, 'must be a GRES that one of its nodes has (GresTypes and gres.conf), got gpu:1'],
    [`echo 'gpu|shard:gpu:8'`, VERSION, 'got gpu:1: its nodes have shard:gpu:8'],
    [`echo 'sinfo: error: no such option' >&2; exit 1`, VERSION, 'Look at SLURM_CONF: sinfo said: sinfo: error'],
  ] as const) {
    using fake = fakeSlurm(sinfo(partitions, version));
    await expect(checkSlurm(FILE)).rejects.toThrow(message);
    expect(fake.asked()[0]).toBe('sinfo --version');
  }
  using fake = fakeSlurm(sinfo(`echo 'gpu|gpu:l4:4(S:0-1)'`));
  await expect(checkSlurm(FILE)).resolves.toBeUndefined();
  expect(fake.asked()).toHaveLength(2);
});

test.each([
  ['gpu:a100:1', 'gpu:h200:8(S:0-1)', false],
  ['gpu:a100:1', 'gpu:8', false],
  ['gpu:a100', 'gpu:a100:2', true],
  ['gpu:a100:1', 'gpu:h200:4(S:0,2),gpu:a100:4(S:1,3)', true],
  ['gpu:4', 'gpu:h200:2', false],
  ['gpu:2', 'gpu:h200:2(S:0)', true],
  ['gpu', 'gpu:h200:2', true],
])('a partition that asks for %s on nodes with %s is accepted: %s', async (gres, offered, taken) => {
  using fake = fakeSlurm(sinfo(`echo 'gpu|${offered}'`));
  const file = { ...FILE, partitions: FILE.partitions.map((one) => ({ ...one, gres })) };
  const checked = await checkSlurm(file).catch((error: unknown) => (error as Error).message);
  expect(fake.asked()).toHaveLength(2);
  if (taken) expect(checked).toBeUndefined();
  else expect(checked).toContain(`got ${gres}: its nodes have ${offered}`);
});

test('reports why a pilot cannot start until somebody changes something, but not that it waits in the queue', async () => {
  using fake = fakeSlurm({
    squeue: `printf '7|PENDING|PartitionTimeLimit|0:00||(null)\n8|PENDING|Priority|0:00|\n9|RUNNING|None|1-02:03:04|n1|of a | file\n10|PENDING|ReqNodeNotAvail, UnavailableNodes:n1|0:00|\n11|RUNNING|None|0:03|n2|flashcore: trying 69: connect | ECONNREFUSED\n'`,
  });
  const slurm = new Slurm(FILE, join(fake.path, 'one'), 'auto');
  expect(await slurm.pilots()).toEqual(new Set(['7', '8', '9', '10', '11']));
  expect(['7', '8', '9', '10'].map((id) => slurm.whyStuck(id))).toEqual([
    "Change the fleet file or Slurm's limits: pilot 7 waits, Slurm says PartitionTimeLimit",
    undefined,
    undefined,
    "Change the fleet file or Slurm's limits: pilot 10 waits, Slurm says ReqNodeNotAvail, UnavailableNodes:n1",
  ]);
  for (const [reason, stuck] of [
    ['PartitionConfig', true],
    ['QOSMaxGRESPerJob', true],
    ['AssocMaxCpuPerJobLimit', true],
    ['QOSMinCpuNotSatisfied', true],
    ['QOSMaxGRESPerUser', false],
    ['AssocGrpGRES', false],
    ['Resources', false],
    ['Licenses', false],
  ] as const) {
    using other = fakeSlurm({ squeue: `echo '7|PENDING|${reason}|0:00|'` });
    const asked = new Slurm(FILE, join(other.path, 'one'), 'auto');
    await asked.pilots();
    expect([reason, asked.whyStuck('7') !== undefined]).toEqual([reason, stuck]);
  }
  expect(slurm.runsUnregistered('8')).toBeUndefined();
  expect(slurm.runsUnregistered('9')).toEqual({
    seconds: 26 * 3600 + 3 * 60 + 4,
    why: `Look at node n1: pilot 9 has run there for 1-02:03:04 and not registered; its log is n1:${FILE.scratch}/pilot-9.log`,
    failing: false,
  });
  // The pilot says itself what is wrong while it still tries.
  expect(slurm.runsUnregistered('11')).toEqual({
    seconds: 3,
    why: `pilot 11 on n2: Change "reach" in the fleet file, or open the firewall: the node got no answer from a:1: connect | ECONNREFUSED; its log is n2:${FILE.scratch}/pilot-11.log`,
    failing: true,
  });
});

test('counts GPUs of the kind that pilots ask for, on nodes that accept jobs', async () => {
  const rows = [
    ['gpu', 'n1', 'gpu:l4:8(S:0-1)', 'gpu:l4:3(IDX:0-2)', 'mix'],
    ['gpu', 'n2', 'gpu:l4:8,gpu:t4:2', 'gpu:l4:0(IDX:N/A),gpu:t4:1(IDX:0)', 'idle'],
    ['gpu', 'n3', 'gpu:l4:8', 'gpu:l4:0(IDX:N/A)', 'idle*'],
    ['gpu', 'n4', 'gpu:l4:8', 'gpu:l4:0(IDX:N/A)', 'drain'],
    ['cpu', 'n5', '(null)', '(null)', 'idle'],
  ].map((row) => row.map((text, column) => text.padEnd([64, 128, 512, 512, 32][column]!)).join(''));
  using fake = fakeSlurm({ sinfo: `cat <<'EOF'\n${rows.join('\n')}\nEOF` });
  const ofKind = { ...FILE, partitions: FILE.partitions.map((one) => ({ ...one, gres: 'gpu:l4:1' })) };
  expect(await new Slurm(ofKind, join(fake.path, 'one'), 'auto').gpus()).toEqual([
    { partition: 'gpu', node: 'n1', total: 8, free: 5 },
    { partition: 'gpu', node: 'n2', total: 8, free: 8 },
  ]);
  const slurm = new Slurm(FILE, join(fake.path, 'one'), 'auto');
  expect((await slurm.gpus()).map(({ total, free }) => [total, free])).toEqual([
    [8, 5],
    [10, 9],
  ]);
});

test('the gateway reports an unreachable controller and still starts', async () => {
  using fake = fakeSlurm(
    sinfo(`echo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)' >&2; exit 1`),
  );
  await expect(checkSlurm(FILE)).resolves.toMatch(/^Look at slurmctld: sinfo said: .*Unable to contact/);
  expect(fake.asked()).toHaveLength(2);
});

test('gateways on one cluster tell their pilots apart, and a restarted gateway finds its own', async () => {
  using fake = fakeSlurm({ sbatch: 'echo 7', squeue: `echo '7|RUNNING'`, scancel: 'true' });
  const nameOf = async (folder: string): Promise<string> => {
    const slurm = new Slurm(FILE, join(fake.path, folder), 'auto');
    expect(await slurm.submit('gpu', 'the-token')).toBe('7');
    expect(await slurm.pilots()).toEqual(new Set(['7']));
    const [submitted, listed] = fake.asked().slice(-2);
    const name = /--job-name=(\S+)/.exec(submitted!)![1]!;
    expect(listed).toContain(`--name=${name} `);
    return name;
  };
  const [one, other, again] = [await nameOf('one'), await nameOf('other'), await nameOf('one')];
  expect(one).toMatch(/^flashcore-pilot-[0-9a-f]{8}$/);
  expect([other === one, again === one]).toEqual([false, true]);
  expect(fake.asked().join('\n')).not.toContain('the-token');
  await new Slurm(FILE, join(fake.path, 'one'), 'auto').cancel(['7', '8']);
  expect(fake.asked().at(-1)).toBe('scancel --quiet 7 8');
});

test('an error of sbatch and an unreachable controller are reported with what to do', async () => {
  for (const [said, message] of [
    ['sbatch: error: Batch job submission failed: Invalid account', "Change the fleet file or Slurm's limits"],
    ['sbatch: error: Unable to contact slurm controller', 'Look at slurmctld'],
  ]) {
    using fake = fakeSlurm({ sbatch: `echo '${said}' >&2; exit 1` });
    const slurm = new Slurm(FILE, join(fake.path, 'one'), 'auto');
    await expect(slurm.submit('gpu', 't')).rejects.toThrow(message);
  }
});

test("the pilots' script passes on the gateway's isolation and certificate", () => {
  expect(pilotScript(parseFleet(BOXED, 'fleet.yaml'), 'required')).toBe(
    `#!/bin/sh
umask 077
log=/scratch/flashcore/pilot-$SLURM_JOB_ID.log
mkdir -p /scratch/flashcore && [ -O /scratch/flashcore ] && touch "$log" || exit 73
find /scratch/flashcore -maxdepth 1 -name 'pilot-*.log' -mtime +7 -delete
exec >>"$log" 2>&1
exec /opt/flashcore/flashcore-runner pilot --gateway head:7000 --data /scratch/flashcore --keep-artifacts-gib 20 --isolation required --tls-ca /opt/ca.crt
`,
  );
});

test('the script accepts any folder name, and its log is in the scratch folder, because nodes may not see the data folder', async () => {
  using fake = fakeSlurm({ sbatch: 'echo 1' });
  const folder = join(fake.path, `it's 100% "ö"`);
  const bundle = join(folder, 'bundle');
  mkdirSync(bundle, { recursive: true });
  writeFileSync(join(bundle, 'flashcore-runner'), `#!/bin/sh\nprintf '%s\\n' "$@" >'${fake.path}/words'\n`, {
    mode: 0o755,
  });
  const slurm = new Slurm({ ...FILE, bundle, scratch: folder }, folder, 'auto');
  await slurm.submit('gpu', 't');
  expect(fake.asked()[0]).toContain(' --output=/dev/null ');
  const env = { ...process.env, SLURM_JOB_ID: '7' };
  execFileSync(join(folder, 'pilot.sh'), { env });
  expect(existsSync(join(folder, 'pilot-7.log'))).toBe(true);
  writeFileSync(join(bundle, 'flashcore-runner'), '#!/bin/sh\necho broken >&2\n');
  execFileSync(join(folder, 'pilot.sh'), { env });
  expect(readFileSync(join(folder, 'pilot-7.log'), 'utf8')).toBe('broken\n');
  expect(readFileSync(join(fake.path, 'words'), 'utf8').split('\n').slice(0, 5)).toEqual([
    ...['pilot', '--gateway', FILE.reach, '--data', folder],
  ]);
});

test("sbatch gets the partition's extra options, and nodes read a set-up script before the pilot starts", async () => {
  using fake = fakeSlurm({ sbatch: 'echo 1', scontrol: 'true' });
  const bundle = join(fake.path, 'bundle');
  const setup = join(fake.path, 'set up.sh');
  mkdirSync(bundle);
  writeFileSync(join(bundle, 'flashcore-runner'), `#!/bin/sh\necho "module: $LOADED" >'${fake.path}/seen'\n`, {
    mode: 0o755,
  });
  const source = `${BOXED.replace('max: 2', 'max: 2, reservation: week, exclude: "gpu[1-2]", sbatch: [--licenses=cuda]')}`;
  const slurm = new Slurm({ ...parseFleet(source, 'f'), bundle, setup, scratch: fake.path }, fake.path, 'auto');
  await slurm.submit('gpu', 't');
  expect(fake.asked()[0]).toMatch(/ --reservation=week --exclude=gpu\[1-2\] --licenses=cuda \S+pilot\.sh$/);
  await slurm.submit('gpu', 't', ['gpu3', 'gpu7']);
  expect(fake.asked()[1]).toContain(' --exclude=gpu[1-2],gpu3,gpu7 ');
  const start = () => spawnSync(join(fake.path, 'pilot.sh'), { env: { ...process.env, SLURM_JOB_ID: '7' } }).status;
  expect(start()).toBe(74);
  for (const [mistake, words] of [
    ['no_such_command', 'no_such_command: not found'],
    ['echo no modules here; exit 3', 'no modules here'],
    ['if then', 'Syntax error: "then" unexpected'],
  ] as const) {
    writeFileSync(setup, `${mistake}\n`);
    expect(start()).toBe(75);
    expect(fake.asked().at(-1)).toMatch(/^scontrol update JobId=7 Comment=flashcore: exit status [1-9]/);
    expect(fake.asked().at(-1)).toContain(words);
  }
  writeFileSync(setup, 'LOADED=cuda-13; export LOADED\n');
  expect([start(), readFileSync(join(fake.path, 'seen'), 'utf8')]).toEqual([0, 'module: cuda-13\n']);
});

test('a pilot that never registered has a reason with node, remedy and log; a cancelled pilot has none', async () => {
  const why = async (shown: string): Promise<string | undefined> => {
    using fake = fakeSlurm({ scontrol: `echo '${shown}'` });
    const cause = await new Slurm(FILE, join(fake.path, 'one'), 'auto').whyEnded('7');
    expect(fake.asked()).toEqual(['scontrol show job 7']);
    return cause;
  };
  const ended = (state: string, code: string, comment = '') =>
    why(
      `JobId=7 JobName=x\n   JobState=${state} Reason=NonZeroExitCode ExitCode=${code}\n   NodeList=n1\n   BatchHost=n1\n${comment}   StdOut=/dev/null`,
    );
  for (const [code, remedy] of [
    ['74:0', 'Put the set-up script where the node can read it'],
    ['127:0', 'there is no /opt/flashcore/flashcore-runner'],
    ['68:0', 'does not know the name in a:1'],
    ['69:0', 'got no answer from a:1'],
    ['76:0', 'does not trust the gateway'],
    ['2:0', 'Read its log: it ended with 2:0'],
  ] as const) {
    const cause = await ended('FAILED', code);
    expect(cause).toMatch(/^pilot 7 on n1: /);
    expect(cause).toContain(remedy);
    expect(cause).toContain(`its log is n1:${FILE.scratch}/pilot-7.log`);
  }
  // The pilot could not write its log on that node, so no log is named.
  expect(await ended('FAILED', '73:0')).toBe(
    `pilot 7 on n1: Make scratch (${FILE.scratch}) a folder that its user owns and can write on the node`,
  );
  const words = (code: string) => ended('FAILED', code, '   Comment=flashcore: Install X=1 (a b=c) \n');
  expect(await words('2:0')).toContain('pilot 7 on n1: Install X=1 (a b=c); its log is');
  expect(await words('75:0')).toContain('Correct the set-up script');
  expect(await words('76:0')).toContain('does not trust the gateway: Install X=1');
  const trying = '   Comment=flashcore: trying 69: connect ECONNREFUSED\n';
  expect(await ended('FAILED', '69:0', trying)).toContain('got no answer from a:1: connect ECONNREFUSED; its log');
  expect(await ended('FAILED', '2:0', '   Comment=of the fleet file \n')).toContain('Read its log');
  expect(await ended('CANCELLED', '0:15')).toBeUndefined();
  expect(await why('slurm_load_jobs error: Invalid job id specified')).toBeUndefined();
});

test("the size limit of a node's scratch folder is on the pilot's command line", () => {
  const script = pilotScript(parseFleet(`${BOXED}scratch_gib: 7\n`, 'fleet.yaml'), 'required');
  const [, command = ''] = /flashcore-runner (.*)\n/.exec(script) ?? [];
  const environment = { version: '1.2.3', repositoryRoot: '/repo', environment: {} };
  const options = parseOptions(command.split(' '), environment);
  expect(options).toMatchObject({
    dataDirectory: '/scratch/flashcore',
    retention: { eventsDays: 1, filesDays: 30, artifactsGib: 7 },
  });
});
