/**
 * A newcomer's walk through docs/fleet.md on a real Slurm of two nodes on this machine. For each fault of the table,
 * the walk makes the fault and has a client submit a job and wait for the message. Then it stops the gateway, corrects
 * what the message names and starts the gateway again. Prints a Markdown table with the seconds until the message and
 * until the job passed.
 * As root, after `npm run build`: npx nx fleet-walk lab [part of a fault's name ...]
 * With FLASHCORE_LIBRARY_CACHE=node_modules/.cache/flashcore-tests/libraries no node compiles the emulator.
 */
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { freePort, waitFor } from '@flashcore/shared/testing';
import { isAlive, ROOT } from '@flashcore/test/support/home';
import { startSlurm, type SlurmCluster } from '@flashcore/test/support/slurm-cluster';

const BIN = join(ROOT, 'node_modules/.bin');
const JOB = ['verify', 'fa_v1_baseline', '--shape', '1x1x64x64', '--seeds', '1'];
const FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1';
const LIMIT_MS = 120_000;

/** The keys of a fleet file that a fault changes. */
interface Keys {
  reach?: string;
  bundle?: string;
  tls_ca?: string;
  scratch?: string;
  setup?: string;
  device?: string;
  gres?: string;
  /** More keys of the partition. */
  more?: string;
}

interface Fault {
  name: string;
  keys?: Keys;
  /** Changes the cluster; returns what corrects it. */
  make?: (slurm: SlurmCluster) => () => void;
}

const folder = mkdtempSync(join(tmpdir(), 'fc-walk-'));
const at = (name: string): string => join(folder, name);
const script = (name: string, text: string): string => {
  writeFileSync(at(name), text);
  return at(name);
};
/** Runs one of Slurm's commands now, and returns what undoes it. */
const asked = (made: readonly string[], corrected: readonly string[]) => (slurm: SlurmCluster) => {
  slurm.ask('scontrol', 'update', ...made);
  return () => void slurm.ask('scontrol', 'update', ...corrected);
};

function faults(): Fault[] {
  mkdirSync(at('theirs'));
  mkdirSync(at('full'));
  chmodSync(at('theirs'), 0o777);
  spawnSync('chown', ['nobody', at('theirs')]);
  return [
    { name: 'reach: a name that the certificate lacks', keys: { reach: 'login2:PORT' } },
    { name: 'reach: a port where nothing listens', keys: { reach: '127.0.0.1:9' } },
    { name: 'reach: a name that nodes do not know', keys: { reach: 'login1:PORT' } },
    { name: 'bundle: not there', keys: { bundle: '/nowhere' } },
    { name: 'tls_ca: not there', keys: { tls_ca: '/nowhere/ca.crt' } },
    { name: 'tls_ca: of another authority', keys: { tls_ca: at('other/ca.crt') } },
    ...(existsSync(FAKETIME)
      ? [
          {
            name: "nodes' clock 3 days behind",
            keys: { setup: script('clock.sh', `export LD_PRELOAD=${FAKETIME} FAKETIME=-3d\n`) },
          },
        ]
      : []),
    { name: 'setup: not there', keys: { setup: '/nowhere/setup.sh' } },
    {
      name: 'setup: module is not a command',
      keys: { setup: script('module.sh', 'module load cuda/13\n') },
    },
    { name: 'setup: does not end', keys: { setup: script('waits.sh', 'sleep 1000\n') } },
    { name: "scratch: another user's", keys: { scratch: at('theirs') } },
    {
      name: 'scratch: full disk',
      keys: { scratch: at('full/s') },
      make: () => {
        execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'none', at('full')]);
        return () => void execFileSync('umount', ['--lazy', at('full')]);
      },
    },
    { name: 'device: the emulator has no GPU', keys: { device: 'NVIDIA H200' } },
    { name: 'gres: of a type that no node has', keys: { gres: 'gpu:a100:1' } },
    { name: 'cpus: more than a node has', keys: { more: ', cpus: 64' } },
    { name: 'exclude: every node', keys: { more: ', exclude: "gpu[1-2]"' } },
    {
      name: 'partition down',
      make: asked(['PartitionName=low', 'State=DOWN'], ['PartitionName=low', 'State=UP']),
    },
    {
      name: 'slurmctld down',
      make: (slurm) => {
        slurm.kill('slurmctld', 'SIGKILL');
        return () => slurm.start('slurmctld');
      },
    },
    {
      name: 'every node drained',
      make: asked(['NodeName=gpu[1-2]', 'State=DRAIN', 'Reason=test'], ['NodeName=gpu[1-2]', 'State=RESUME']),
    },
  ];
}

/** A program of the test's environment, with all that it has said. */
function started(program: string, args: readonly string[], env: NodeJS.ProcessEnv) {
  const child: ChildProcess & { said: string } = Object.assign(
    spawn(join(BIN, program), args, { env, stdio: ['ignore', 'pipe', 'pipe'] }),
    { said: '' },
  );
  for (const from of [child.stdout!, child.stderr!])
    from.setEncoding('utf8').on('data', (text: string) => (child.said += text));
  return child;
}

async function ended(child: ChildProcess): Promise<void> {
  child.kill();
  await waitFor(
    'a process to end',
    () => (child.pid === undefined || !isAlive(child.pid) ? true : undefined),
    LIMIT_MS,
  );
}

async function walk(fault: Fault, slurm: SlurmCluster, env: NodeJS.ProcessEnv): Promise<string> {
  const [port, pilots] = [await freePort(), await freePort()];
  const data = mkdtempSync(at('data-'));
  const fleet = (keys: Keys): string => {
    const { reach = '127.0.0.1:PORT', bundle = BIN, tls_ca: ca = at('tls/ca.crt'), scratch = at('scratch') } = keys;
    const { setup, device = 'emulator', gres = 'gpu:h200:1', more = '' } = keys;
    return script(
      'fleet.yaml',
      `listen: 127.0.0.1:${pilots}
reach: ${reach.replace('PORT', String(pilots))}
bundle: ${bundle}
tls_ca: ${ca}
scratch: ${scratch}
${setup === undefined ? '' : `setup: ${setup}\n`}partitions:
  - { partition: low, device: ${device}, gres: '${gres}', max: 1${more} }
`,
    );
  };
  const address = `127.0.0.1:${port}`;
  const gateway = async (keys: Keys): Promise<ReturnType<typeof started>> => {
    const options = ['--slurm', fleet(keys), '--address', address, '--data', data, '--tls', at('tls')];
    const child = started('flashcore-runner', ['gateway', ...options], env);
    await waitFor(
      'the gateway',
      () => (child.said.includes('serves on') || child.exitCode !== null ? true : undefined),
      LIMIT_MS,
    );
    // fa-tui gives a runner less time to answer than it needs on a busy machine just after its start.
    for (let tries = 0; tries < 10 && child.exitCode === null; tries += 1)
      if (spawnSync(join(BIN, 'fa-tui'), ['fleet', '--runner', address], { env }).status === 0) break;
    return child;
  };
  const submitted = () => started('fa-tui', [...JOB, '--runner', address], env);
  const seconds = (since: number): string => ((performance.now() - since) / 1000).toFixed(0);

  const correct = fault.make?.(slurm);
  let one = await gateway(fault.keys ?? {});
  let told = 'at the start';
  let message = one.said.trim().split('\n').at(-1)!;
  let client: ReturnType<typeof started> | undefined;
  if (one.exitCode === null) {
    const since = performance.now();
    const job = (client = submitted());
    const nothing = (): string => `nothing: ${job.said.trim().replaceAll('\n', ' ')}`;
    const heard = await waitFor(
      'a message',
      () => /No pilot yet\. .*/.exec(job.said)?.[0] ?? (job.exitCode === null ? undefined : nothing()),
      LIMIT_MS,
    ).catch(nothing);
    told = `${seconds(since)} s`;
    message = heard.replace('No pilot yet. partition low: ', '');
    const shown = spawnSync(join(BIN, 'fa-tui'), ['fleet', '--runner', address], { env, encoding: 'utf8' });
    const words = message.replaceAll(/\W+/g, ' ').slice(0, 60);
    if (!shown.stdout.replaceAll(/\W+/g, ' ').includes(words)) message += ' (not in `fa-tui fleet`)';
    await ended(one);
  }
  correct?.();
  one = await gateway({});
  const since = performance.now();
  const job = client ?? submitted();
  const exitCode = await waitFor('the job', () => job.exitCode ?? undefined, 300_000).catch(() => 'no exit');
  const after = `${exitCode === 0 ? 'PASSED' : `exit code ${exitCode}: ${job.said.slice(-300).replaceAll('\n', ' ')}`} after ${seconds(since)} s`;
  await ended(one);
  await waitFor(
    'pilots to end',
    () => {
      spawnSync('scancel', ['--user=root'], { env });
      return spawnSync('squeue', ['--noheader'], { env, encoding: 'utf8' }).stdout.trim() === '' || undefined;
    },
    LIMIT_MS,
  );
  return `| ${fault.name} | ${told} | ${message.replaceAll(folder, '').replaceAll('|', '\\|')} | ${after} |`;
}

const slurm = await startSlurm(at('c'));
try {
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    ...(process.env['FLASHCORE_LIBRARY_CACHE'] && {
      FLASHCORE_LIBRARY_CACHE: resolve(process.env['FLASHCORE_LIBRARY_CACHE']),
    }),
    SLURM_CONF: slurm.conf,
    FLASHCORE_HOME: at('home'),
    FLASHCORE_ALLOW_ROOT: '1',
    NO_COLOR: '1',
    XDG_CONFIG_HOME: at('config'),
    XDG_STATE_HOME: at('state'),
    FLASHCORE_TLS_CA: at('tls/ca.crt'),
    FLASHCORE_TLS_CERT: at('tls/client.crt'),
    FLASHCORE_TLS_KEY: at('tls/client.key'),
  };
  for (const [out, ...hosts] of [
    ['tls', '127.0.0.1', 'login1'],
    ['other', '127.0.0.1'],
  ])
    execFileSync(
      join(BIN, 'flashcore-runner'),
      ['tls', 'init', '--out', at(out!), ...hosts.flatMap((host) => ['--host', host])],
      { env, stdio: 'ignore' },
    );
  const wanted = process.argv.slice(2);
  console.log(`${availableParallelism()} processors, load ${loadavg()[0]!.toFixed(1)}\n`);
  console.log('| fault | told after | message | then |\n| --- | --- | --- | --- |');
  for (const fault of faults())
    if (wanted.length === 0 || wanted.some((text) => fault.name.includes(text)))
      console.log(await walk(fault, slurm, env));
} finally {
  slurm[Symbol.dispose]();
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
}
