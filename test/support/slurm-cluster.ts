import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { freePort } from '@flashcore/shared/testing';

/** A Slurm cluster on this machine. It has two nodes, each with four GPUs that are really /dev/null. */
export interface SlurmCluster extends Disposable {
  /** Value of SLURM_CONF. */
  conf: string;
  /** Runs one of Slurm's commands and returns its output. Errors: those of the command. */
  ask: (program: string, ...args: string[]) => string;
  kill: (daemon: SlurmDaemon, signal: NodeJS.Signals) => void;
  /** Starts a daemon that was killed. It continues from its saved state. */
  start: (daemon: SlurmDaemon) => void;
  /** Resumes nodes that Slurm drained, as an administrator would; does nothing while the controller is down. */
  resume: () => void;
}

export type SlurmDaemon = 'slurmctld' | 'slurmd-gpu1' | 'slurmd-gpu2';

const NODES = ['gpu1', 'gpu2'] as const;

/**
 * Starts the cluster in a folder, as root: munge, the controller and a daemon per node. The partition "high" preempts
 * jobs of "low".
 */
export async function startSlurm(folder: string): Promise<SlurmCluster> {
  for (const name of ['etc', 'dev', 'log', 'state', ...NODES.map((node) => `spool/${node}`)])
    mkdirSync(join(folder, name), { recursive: true });
  const munge = startMunge(join(folder, 'munge'));
  for (let gpu = 0; gpu < 4; gpu += 1) run('mknod', ['-m', '666', join(folder, 'dev', `nvidia${gpu}`), 'c', '1', '3']);
  const conf = join(folder, 'etc', 'slurm.conf');
  writeFileSync(
    conf,
    slurmConf(folder, { ports: [await freePort(), await freePort(), await freePort()], socket: munge.socket }),
  );
  writeFileSync(
    join(folder, 'etc', 'gres.conf'),
    `NodeName=gpu[1-2] Name=gpu Type=h200 File=${folder}/dev/nvidia[0-3]\n`,
  );
  run('slurmctld', ['-f', conf, '-c']);
  for (const node of NODES) run('slurmd', ['-f', conf, '-N', node]);
  const pidOf = (daemon: string): number => Number(readFileSync(join(folder, `${daemon}.pid`), 'utf8'));
  return {
    conf,
    ask: (program, ...args) =>
      execFileSync(program, args, { encoding: 'utf8', env: { ...process.env, SLURM_CONF: conf } }),
    kill: (daemon, signal) => process.kill(pidOf(daemon), signal),
    start: (daemon) => {
      if (daemon === 'slurmctld') run('slurmctld', ['-f', conf]);
      else run('slurmd', ['-f', conf, '-N', daemon.replace('slurmd-', '')]);
    },
    // scontrol fails if no node is drained, which is not an error here.
    resume: () =>
      void spawnSync('scontrol', ['update', `NodeName=${NODES.join(',')}`, 'State=RESUME'], {
        env: { ...process.env, SLURM_CONF: conf },
        timeout: 10_000,
      }),
    [Symbol.dispose]() {
      const env = { ...process.env, SLURM_CONF: conf };
      spawnSync('scancel', ['--user=root'], { env });
      // A gateway does not end its pilots, because the next gateway uses them. Slurm has to end them while its daemons
      // are still running.
      spawnSync('sh', ['-c', 'until test -z "$(squeue --noheader)"; do sleep 0.1; done'], { env, timeout: 10_000 });
      const files = readdirSync(folder).filter((name) => name.endsWith('.pid'));
      for (const file of files) endProcess(Number(readFileSync(join(folder, file), 'utf8')));
      endProcess(munge.pid());
    },
  };
}

function startMunge(folder: string): { socket: string; pid: () => number } {
  // Other users' clients connect to the socket in this folder.
  mkdirSync(folder, { recursive: true, mode: 0o711 });
  const socket = join(folder, 'munge.socket');
  const key = join(folder, 'munge.key');
  writeFileSync(key, randomBytes(1024), { mode: 0o400 });
  const own = ['pid', 'log', 'seed'].map((name) => `--${name}-file=${join(folder, `munged.${name}`)}`);
  run('munged', [`--key-file=${key}`, `--socket=${socket}`, '--num-threads=2', '--force', ...own]);
  return { socket, pid: () => Number(readFileSync(join(folder, 'munged.pid'), 'utf8')) };
}

const run = (program: string, args: readonly string[]): void =>
  void execFileSync(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });

function endProcess(pid: number): void {
  if (pid > 0 && existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGKILL');
}

/** `ports`: the port of the controller and the port of each node. */
const slurmConf = (folder: string, { ports, socket }: { ports: number[]; socket: string }): string => `
ClusterName=flashcore
SlurmctldHost=${hostname()}(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=${socket}
CryptoType=crypto/munge
StateSaveLocation=${folder}/state
SlurmdSpoolDir=${folder}/spool/%n
SlurmctldPidFile=${folder}/slurmctld.pid
SlurmdPidFile=${folder}/slurmd-%n.pid
SlurmctldLogFile=${folder}/log/slurmctld.log
SlurmdLogFile=${folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=3
SchedulerParameters=sched_interval=1,bf_interval=1,preempt_youngest_first
${NODES.map(
  (node, index) =>
    `NodeName=${node} NodeHostname=${hostname()} NodeAddr=127.0.0.1 Port=${ports[1 + index]} CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=1000 Gres=gpu:h200:4 State=UNKNOWN`,
).join('\n')}
PartitionName=low Nodes=gpu[1-2] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=gpu[1-2] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
`;
