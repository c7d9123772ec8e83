/** A gateway on a real Slurm that is away for a moment, or whose disk is full: no accepted job is lost. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RunnerClient } from '@flashcore/shared/client';
import { Outcome, type JobEvent } from '@flashcore/shared/contract';
import { freePort, missing, PATIENT_MS, until } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';
import { startSlurm, type SlurmCluster } from '../support/slurm-cluster.ts';

const NO_SLURM = missing('slurm-wlm');
// If all tests are skipped no folder is made, because no test would remove it.
const folder = NO_SLURM ? '' : mkdtempSync(join(tmpdir(), 'fc-tr-'));
let slurm: SlurmCluster | undefined;

beforeAll(async () => {
  if (!NO_SLURM) slurm = await startSlurm(join(folder, 'c'));
}, 60_000);
afterAll(() => {
  slurm?.[Symbol.dispose]();
  if (folder !== '') rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
});

const clusterHome = (): Home => new Home({ SLURM_CONF: slurm!.conf, FLASHCORE_ALLOW_ROOT: '1' });

async function fleetFile(max: number): Promise<string> {
  const port = await freePort();
  const path = join(folder, `fleet-${port}.yaml`);
  writeFileSync(
    path,
    `
listen: 127.0.0.1:${port}
reach: 127.0.0.1:${port}
bundle: ${ROOT}/node_modules/.bin
scratch: ${folder}/scratch
partitions:
  - { partition: low, device: emulator, gres: 'gpu:1', max: ${max}, idle_seconds: 600 }
`,
  );
  return path;
}

/** Its gateway gets what a client sends only after a while, so that it can be killed before a call that was sent. */
async function slowUplink(target: string, delayMs: number): Promise<AsyncDisposable & { address: string }> {
  const [host, port] = target.split(':') as [string, string];
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const gateway = connect(Number(port), host);
    const close = (): void => {
      client.destroy();
      gateway.destroy();
    };
    for (const socket of [client, gateway]) {
      sockets.add(socket);
      socket.on('error', close).on('close', () => {
        sockets.delete(socket);
        close();
      });
    }
    // eslint-disable-next-line flashcore/no-fixed-wait -- the delay is what this proxy is for
    client.on('data', (data: Buffer) => void setTimeout(() => gateway.writable && gateway.write(data), delayMs));
    gateway.pipe(client);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((closed) => server.close(closed));
    },
  };
}

test.skipIf(NO_SLURM)(
  'a client whose job passed gets its result, although the gateway is killed before the final GetJob',
  { timeout: 240_000 },
  async () => {
    await using home = clusterHome();
    const file = await fleetFile(1);
    const gateway = await home.startGateway(file);
    await using proxy = await slowUplink(gateway.address, 400);
    const asked = ['verify', 'fa_v1_baseline', '--shape', '1x1x64x64', '--seeds', '1', '--json'];
    const child = spawn(join(ROOT, 'node_modules/.bin/fa-tui'), [...asked, '--runner', proxy.address], {
      env: home.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const said = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const)
      child[name].setEncoding('utf8').on('data', (text: string) => (said[name] += text));
    const ended = once(child, 'close');
    const watching = await RunnerClient.connect({ address: gateway.address, timeoutMs: PATIENT_MS });
    let job: string | undefined;
    await until(async () => (job = (await watching.listJobs({})).jobs[0]?.name) !== undefined);
    for await (const { payload } of watching.watch(job!)) if (payload.case === 'finished') break;
    gateway.process.kill('SIGKILL');
    watching.close();
    // The client has heard that the job passed, and its next call cannot be answered.
    await until(() => said.stderr.includes('connection lost'));
    expect([child.exitCode, said.stdout]).toEqual([null, '']);
    await home.startGateway(file, gateway.address);
    expect(await ended, said.stderr).toEqual([0, null]);
    expect(JSON.parse(said.stdout)).toMatchObject({ job: { name: job, outcome: 'OUTCOME_PASSED' }, result: {} });
  },
);

/** Makes the folder a small disk of its own; undefined if this machine lets nobody mount one. */
function smallDisk(path: string): Disposable | undefined {
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=48m', 'none', path]).status !== 0) return undefined;
  return { [Symbol.dispose]: () => void execFileSync('umount', ['--lazy', path]) };
}

/** Lines of a log without their time, and how often each occurs. */
function countedLines(log: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const line of log.split('\n').filter((each) => each.startsWith('{'))) {
    const text = line.replace(/"time":"[^"]*",/, '').replace(/,"repeated":\d+/, '');
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return counts;
}

test.skipIf(NO_SLURM)(
  'a full disk of the gateway ends no accepted job, and its log repeats no line',
  { timeout: 300_000 },
  async ({ skip }) => {
    await using home = clusterHome();
    using disk = smallDisk(home.path);
    if (!disk) skip('nothing can be mounted here');
    const { address, process: gateway } = await home.startGateway(await fleetFile(2));
    let log = '';
    gateway.stderr!.on('data', (text: Buffer) => (log += text.toString()));
    const client = await RunnerClient.connect({ address, timeoutMs: PATIENT_MS });
    const verification = () =>
      client.start('verify', {
        kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
        settings: { shapes: [{ batch: 1, heads: 2, sequenceLength: 256, headDim: 64 }], seedCount: 40 },
      });
    const streams = Array.from({ length: 6 }, async () => {
      const events: JobEvent[] = [];
      for await (const event of verification()) events.push(event);
      return events;
    });
    const states = async () => (await client.getHost({})).host!.fleet!.pilots.map(({ job }) => job);
    await until(async () => (await client.listJobs({})).jobs.length === 6 && (await states()).some(Boolean));
    const filler = join(home.path, 'filler');
    spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=64k']);
    await until(() => log.includes('only reading: the store takes no writes'));
    const since = performance.now();
    // A new job is refused, and the gateway still answers.
    const events = verification();
    await expect(events[Symbol.asyncIterator]().next()).rejects.toMatchObject({ reason: 'DISK_FULL' });
    await until(() => performance.now() - since > 20_000);
    expect((await client.listJobs({})).jobs).toHaveLength(6);
    rmSync(filler);
    for (const seen of await Promise.all(streams)) {
      const end = seen.at(-1)!.payload;
      expect(end.case === 'finished' && Outcome[end.value.outcome]).toBe('PASSED');
      expect(seen.map(({ sequence }) => Number(sequence))).toEqual(seen.map((_, index) => index + 1));
    }
    client.close();
    const often = [...countedLines(log)].filter(([, count]) => count > 3);
    expect(often).toEqual([]);
    expect(log.split('\n').length).toBeLessThan(150);
  },
);
