/** A gateway on a real Slurm with two nodes on this machine, whose pilots run the emulator. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RunnerClient } from '@flashcore/shared/client';
import { Outcome, PilotState, type Fleet, type JobEvent } from '@flashcore/shared/contract';
import { freePort, missing, until } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';
import { startSlurm, type SlurmCluster } from '../support/slurm-cluster.ts';

const SHAPE = '1x1x64x64';
// If all tests are skipped no folder is made, because no test would remove it.
const folder = missing('slurm-wlm') ? '' : mkdtempSync(join(tmpdir(), 'fc-sl-'));
const home = new Home();
let slurm: SlurmCluster | undefined;
let address: string;
/** Address at which pilots register. */
let pilotsAt: string;
let client: RunnerClient;

interface Changes {
  reach?: number;
  gres?: string;
  device?: string;
  /** More keys for the partition. */
  more?: string;
}

const fleetFile = (port: number, partition = 'low', changes: Changes = {}): string => {
  const { reach = port, gres = 'gpu:1', device = 'emulator', more = '' } = changes;
  const path = join(folder, `fleet-${partition}.yaml`);
  writeFileSync(
    path,
    `
listen: 127.0.0.1:${port}
reach: 127.0.0.1:${reach}
bundle: ${ROOT}/node_modules/.bin
scratch: ${folder}/scratch
setup: ${folder}/setup.sh
partitions:
  - { partition: ${partition}, device: ${device}, gres: '${gres}', max: 1, idle_seconds: 600${more} }
`,
  );
  return path;
};

beforeAll(async () => {
  if (missing('slurm-wlm')) return;
  slurm = await startSlurm(join(folder, 'c'));
  Object.assign(home.env, { SLURM_CONF: slurm.conf, FLASHCORE_ALLOW_ROOT: '1' });
  writeFileSync(join(folder, 'setup.sh'), `echo "$SLURMD_NODENAME" >>'${folder}/set-up'\n`);
  const port = await freePort();
  pilotsAt = `127.0.0.1:${port}`;
  ({ address } = await home.startGateway(
    fleetFile(port, 'low', { more: ', exclude: gpu1, sbatch: [--comment=flashcore]' }),
  ));
  client = await RunnerClient.connect({ address });
}, 60_000);
afterAll(async () => {
  client?.close();
  await home[Symbol.asyncDispose]();
  slurm?.[Symbol.dispose]();
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
});

const fleet = async (): Promise<Fleet> => (await client.getHost({})).host!.fleet!;

/** A job that runs for seconds, so that a test can stop its pilot while the job runs. */
const longVerification = (by = client) =>
  by.start('verify', {
    kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
    settings: { shapes: [{ batch: 1, heads: 4, sequenceLength: 512, headDim: 64 }], seedCount: 100 },
  });

test.skipIf(missing('slurm-wlm'))('a kernel that does not compile ends at the gateway, which requests no pilot', () => {
  const { exitCode, response } = home.runJson(['verify', 'syntax_error', '--shape', SHAPE, '--runner', address]);
  expect([exitCode, response.job!.outcome, response.result!.deviceSeconds]).toEqual([1, Outcome.COMPILE_FAILED, 0]);
  expect(slurm!.ask('squeue', '--noheader')).toBe('');
});

test.skipIf(missing('slurm-wlm'))(
  'a job runs on a node, with the same figures as on this machine',
  { timeout: 180_000 },
  async () => {
    const asked = ['verify', 'fa_v1_baseline', '--shape', SHAPE, '--seed', '5eed'];
    const there = home.runJson([...asked, '--runner', address]);
    expect(there).toMatchObject({ exitCode: 0 });
    expect(there.response.job!.deviceId).toBe('slurm:low');
    await using here = new Home();
    const errors = ({ response }: typeof there) =>
      response.result!.variants[0]!.verify!.cases.map(({ maxAbsError, meanAbsError }) => [maxAbsError, meanAbsError]);
    expect(errors(there)).toEqual(errors(here.runJson(asked)));
    const [pilot] = (await fleet()).pilots;
    expect(pilot).toMatchObject({
      partition: 'low',
      state: PilotState.IDLE,
      node: 'gpu2',
    });
    expect(slurm!.ask('scontrol', 'show', 'job', pilot!.schedulerJob)).toMatch(/Comment=flashcore/);
    expect(readFileSync(join(folder, 'set-up'), 'utf8')).toBe('gpu2\n');
    expect(home.faTui(['fleet', '--runner', address]).stdout).toMatch(
      new RegExp(`${pilot!.schedulerJob} +low +idle +${pilot!.node}`),
    );
    expect(slurm!.ask('squeue', '--noheader', '--format=%A %P').trim()).toBe(`${pilot!.schedulerJob} low`);
    await until(async () => (await fleet()).gpus?.free === 7);
    expect((await fleet()).partitions[0]!.gpus).toMatchObject({ total: 8, free: 7 });
  },
);

test.skipIf(missing('slurm-wlm'))(
  'if a pilot is killed in the middle of a job, another pilot takes the job, and the client sees one stream',
  { timeout: 180_000 },
  async () => {
    const before = await fleet();
    const events: JobEvent[] = [];
    let killed = '';
    for await (const event of longVerification()) {
      events.push(event);
      if (event.payload.case !== 'verifyProgress' || killed !== '') continue;
      killed = (await fleet()).pilots[0]!.schedulerJob;
      execFileSync('pkill', ['-KILL', '-f', `pilot --gateway ${pilotsAt}`]);
    }
    expect(events.map(({ sequence }) => Number(sequence))).toEqual(events.map((_, index) => index + 1));
    const attempts = events.flatMap(({ payload }) =>
      payload.case === 'attemptStarted' ? [payload.value.attempt] : [],
    );
    expect(attempts).toEqual([1, 2]);
    const end = events.at(-1)!.payload;
    expect(end.case === 'finished' && Outcome[end.value.outcome]).toBe('PASSED');
    const { pilots, lostLeases, requeues } = await fleet();
    expect(pilots.map(({ schedulerJob }) => schedulerJob)).not.toContain(killed);
    expect([lostLeases - before.lostLeases, requeues - before.requeues]).toEqual([1n, 1n]);
  },
);

test.skipIf(missing('slurm-wlm'))(
  'a job whose pilot is preempted passes in a second attempt',
  { timeout: 180_000 },
  async () => {
    const events: JobEvent[] = [];
    let preempted = false;
    for await (const event of longVerification()) {
      events.push(event);
      if (event.payload.case !== 'verifyProgress' || preempted) continue;
      preempted = true;
      slurm!.ask(
        'sbatch',
        '--partition=high',
        '--nodes=2',
        '--gres=gpu:4',
        '--exclusive',
        '--output=/dev/null',
        '--wrap=sleep 1',
      );
    }
    const reasons = events.flatMap(({ payload }) =>
      payload.case === 'attemptStarted' ? [payload.value.reason ?? ''] : [],
    );
    // Slurm informs the pilot, and the gateway sees it in Slurm's queue. Either may come first.
    expect(['the scheduler ends the pilot', 'its pilot has ended']).toContain(reasons[1]);
    expect(reasons).toHaveLength(2);
    expect(events.at(-1)!.payload).toMatchObject({ case: 'finished', value: { outcome: Outcome.PASSED } });
  },
);

test.skipIf(missing('slurm-wlm'))('errors in the cluster’s configuration are reported at the start', () => {
  const start = (env: Record<string, string>, partition: string, gres?: string) =>
    home.runnerCommand(['gateway', '--slurm', fleetFile(1, partition, { gres }), '--data', join(folder, 'd')], { env });
  // Makes every folder look like one on NFS, as a home directory on a cluster is.
  const onNfs = `import fs from 'node:fs'; import { syncBuiltinESMExports } from 'node:module';
    fs.statfsSync = () => ({ type: 0x6969 }); syncBuiltinESMExports();`;
  expect(start({ NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(onNfs)}` }, 'low')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining(
      `Give --data <folder> on a disk of this machine: ${join(folder, 'd')} is on NFS`,
    ) as string,
  });
  expect(start({}, 'high', 'gpu:a100:1')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('got gpu:a100:1: its nodes have gpu:h200:4') as string,
  });
  expect(start({}, 'nowhere')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('partition nowhere: must be one of low, high') as string,
  });
  // This PATH has Node but not Slurm.
  expect(start({ PATH: join(ROOT, 'node_modules/.bin') }, 'low')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('Install') as string,
  });
});

test.skipIf(missing('slurm-wlm'))(
  'if nodes cannot reach the gateway, the client and `fa-tui fleet` say why',
  { timeout: 120_000 },
  async () => {
    await using other = new Home();
    Object.assign(other.env, { SLURM_CONF: slurm!.conf, FLASHCORE_ALLOW_ROOT: '1' });
    const [port, nobody] = [await freePort(), await freePort()];
    const { address: there } = await other.startGateway(fleetFile(port, 'high', { reach: nobody }));
    const watching = await RunnerClient.connect({ address: there });
    const cause = new RegExp(
      `pilot \\d+ on gpu[12]: Change "reach" .*no answer from 127.0.0.1:${nobody}: connect ECONNREFUSED .*; its log is gpu[12]:/`,
    );
    const since = performance.now();
    const heard: string[] = [];
    for await (const { payload } of longVerification(watching)) {
      if (payload.case === 'warning') heard.push(payload.value.message);
      if (heard.at(-1)?.startsWith('No pilot yet.')) break;
    }
    watching.close();
    expect(performance.now() - since).toBeLessThan(30_000);
    expect(heard.at(-1)).toMatch(cause);
    expect(other.faTui(['fleet', '--runner', there]).stdout.replaceAll(/\s+/g, ' ')).toMatch(cause);
  },
);

test.skipIf(missing('slurm-wlm'))(
  'if nodes have a device other than their partition’s, the job, the fleet and the pilot’s log say so within 30 s',
  { timeout: 120_000 },
  async () => {
    await using other = new Home();
    Object.assign(other.env, { SLURM_CONF: slurm!.conf, FLASHCORE_ALLOW_ROOT: '1' });
    const { address: there } = await other.startGateway(fleetFile(await freePort(), 'high', { device: 'NVIDIA H200' }));
    const watching = await RunnerClient.connect({ address: there });
    const since = performance.now();
    let heard = '';
    for await (const { payload } of longVerification(watching))
      if (payload.case === 'warning' && payload.value.message.startsWith('No pilot yet.')) {
        heard = payload.value.message;
        break;
      }
    expect(performance.now() - since).toBeLessThan(30_000);
    expect(heard).toMatch(
      /pilot \d+ on gpu[12] was refused: Look at the node's driver.*has NVIDIA H200, a pilot found/,
    );
    watching.close();
    const log = join(folder, 'scratch', `pilot-${/pilot (\d+) on/.exec(heard)![1]}.log`);
    await until(() => readFileSync(log, 'utf8').includes("The gateway refused this pilot. Look at the node's driver"));
    expect(readFileSync(log, 'utf8')).not.toContain('incident');
  },
);

test.skipIf(missing('slurm-wlm'))(
  'if a partition is down, the job and the fleet show that its pilot waits',
  { timeout: 120_000 },
  async () => {
    await using other = new Home();
    Object.assign(other.env, { SLURM_CONF: slurm!.conf, FLASHCORE_ALLOW_ROOT: '1' });
    slurm!.ask('scontrol', 'update', 'PartitionName=high', 'State=DOWN');
    const { address: there } = await other.startGateway(fleetFile(await freePort(), 'high'));
    const watching = await RunnerClient.connect({ address: there });
    const since = performance.now();
    const heard: string[] = [];
    for await (const { payload } of longVerification(watching)) {
      if (payload.case === 'warning') heard.push(payload.value.message);
      if (heard.at(-1)?.startsWith('No pilot yet.')) break;
    }
    expect(performance.now() - since).toBeLessThan(30_000);
    expect(heard.at(-1)).toMatch(/partition high: .*pilot \d+ waits, Slurm says PartitionDown/);
    expect((await watching.getHost({})).host!.fleet!.schedulerProblem).toContain('PartitionDown');
    watching.close();
    slurm!.ask('scontrol', 'update', 'PartitionName=high', 'State=UP');
  },
);

test.skipIf(missing('slurm-wlm'))("neither the pilots' logs nor Slurm's job records contain a token", () => {
  const logs = [join(home.path, 'fleet'), join(folder, 'scratch')].flatMap((path) =>
    readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isFile() && /^pilot[.-]/.test(entry.name))
      .map(({ name }) => readFileSync(join(path, name), 'utf8')),
  );
  expect(logs.join('')).not.toMatch(/TOKEN=/);
  // If the node has cgroups, the runner limits programs and ends them together. If not, the log says so.
  expect(logs.filter((log) => log.includes('cgroups of boxes')).length).toBeGreaterThan(0);
  expect(slurm!.ask('scontrol', 'show', 'job')).not.toMatch(/[\w-]{43}/);
});
