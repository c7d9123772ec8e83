import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '@flashcore/shared/contract';
import { plainLine, shellWord } from '@flashcore/shared/text';
import type { IsolationWanted } from '../sandbox/find-box.ts';
import { readProgram } from '../sandbox/run.ts';
import type { SlurmFile } from './fleet-file.ts';
import { LAST_WORDS, readLastWords, readTrying } from './last-words.ts';
import { gatewayId, said, SchedulerError, unreachableRemedy, type NodeGpus, type Scheduler } from './scheduler.ts';

/**
 * Less than Slurm's own limit for its commands, which is a minute. Without a controller the commands fail after some
 * seconds.
 */
const LIMIT_MS = 30_000;
const MAX_OUTPUT_BYTES = 8 * 1024 * 1024;
/** The first major version that has sbatch's --signal and the formats of squeue used here. */
const LEAST_VERSION = 20;
/** Slurm sends a pilot a signal this long before it kills the pilot, so that the pilot can give its job back. */
const WARNING_SECONDS = 30;

const ENVIRONMENT = ['PATH', 'HOME', 'SLURM_CONF', 'LD_LIBRARY_PATH'];
const PILOT_ENVIRONMENT = [
  'FLASHCORE_PILOT_TOKEN',
  'FLASHCORE_PILOT_MINUTES',
  ...[
    'FLASHCORE_ALLOW_ROOT',
    'FLASHCORE_LIBRARY_CACHE',
    'FLASHCORE_BUILD_CACHE',
    'FLASHCORE_LOG_LEVEL',
    'FLASHCORE_PROBLEMS',
  ],
];

/**
 * Slurm, used through its commands, because its REST service has a new version in each release. Slurm never requeues
 * pilots, because a token registers only once; the gateway submits new pilots instead.
 */
export class Slurm implements Scheduler {
  readonly #file: SlurmFile;
  readonly #folder: string;
  /** The job name of this gateway's pilots, which distinguishes them from those of other gateways on the cluster. */
  readonly #jobName: string;
  /** Slurm's reason for each pilot that waits. */
  #reasons = new Map<string, string>();
  /** The node of each pilot that runs, for how long it has run, as Slurm writes it, and its job's comment. */
  #running = new Map<string, { node: string; time: string; comment: string }>();
  /** The node on which the pilot of the last whyEnded() call ran. */
  #ended: { schedulerJob: string; node: string } | undefined;

  /**
   * `folder` holds the pilots' script; nodes need not see it, because sbatch copies the script. `isolation` says how
   * pilots sandbox kernels and compilers.
   */
  constructor(file: SlurmFile, folder: string, isolation: IsolationWanted) {
    this.#file = file;
    this.#folder = folder;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(this.#script, pilotScript(file, isolation), { mode: 0o700 });
    this.#jobName = `flashcore-pilot-${gatewayId(join(folder, 'id'))}`;
  }

  async submit(partition: string, token: string, avoid: readonly string[] = []): Promise<string> {
    const settings = this.#file.partitions.find((one) => one.partition === partition)!;
    const optional = {
      account: settings.account,
      qos: settings.qos,
      constraint: settings.constraint,
      reservation: settings.reservation,
      exclude: [...(settings.exclude === undefined ? [] : [settings.exclude]), ...avoid].join(',') || undefined,
      'cpus-per-task': settings.cpus,
      mem: settings.memory_mib === undefined ? undefined : `${settings.memory_mib}M`,
    };
    const end = await ask(
      'sbatch',
      [
        '--parsable',
        '--no-requeue',
        `--job-name=${this.#jobName}`,
        `--partition=${settings.partition}`,
        `--gres=${settings.gres}`,
        `--time=${settings.time_limit_minutes}`,
        `--signal=B:TERM@${WARNING_SECONDS}`,
        // Slurm fails a job whose output its node can't open, so the script keeps a log in the node's scratch folder
        // instead.
        '--output=/dev/null',
        '--chdir=/',
        // The pilot gets only these environment variables. Only their names are given here, so other users can't see
        // their values.
        `--export=${[...ENVIRONMENT, ...PILOT_ENVIRONMENT].join(',')}`,
        ...Object.entries(optional).flatMap(([option, value]) => (value === undefined ? [] : [`--${option}=${value}`])),
        ...(settings.sbatch ?? []),
        this.#script,
      ],
      { extra: { FLASHCORE_PILOT_TOKEN: token, FLASHCORE_PILOT_MINUTES: String(settings.time_limit_minutes) } },
    );
    const id = /^(\d+)(?:;|\s|$)/.exec(end.output ?? '')?.[1];
    if (end.exitCode === 0 && id !== undefined) return id;
    throw problem('sbatch', end);
  }

  async pilots(): Promise<ReadonlySet<string>> {
    const end = await ask('squeue', ['--noheader', '--me', `--name=${this.#jobName}`, '--format=%A|%T|%r|%M|%N|%k']);
    if (end.exitCode !== 0) throw problem('squeue', end);
    const rows = (end.output ?? '').split('\n').map((line) => line.split('|'));
    this.#reasons = new Map(rows.flatMap(([id, state, reason]) => (state === 'PENDING' ? [[id!, reason ?? '']] : [])));
    this.#running = new Map(
      rows.flatMap(([id, state, , time = '', node = '', ...comment]) =>
        state === 'RUNNING' ? [[id!, { node, time, comment: comment.join('|') }]] : [],
      ),
    );
    return new Set(rows.flatMap(([id]) => id || []));
  }

  whyStuck(schedulerJob: string): string | undefined {
    const reason = this.#reasons.get(schedulerJob) ?? '';
    if (!STUCK.test(reason)) return undefined;
    return plainLine(`Change the fleet file or Slurm's limits: pilot ${schedulerJob} waits, Slurm says ${reason}`);
  }

  runsUnregistered(schedulerJob: string): { seconds: number; why: string; failing: boolean } | undefined {
    const { node, time, comment = '' } = this.#running.get(schedulerJob) ?? {};
    if (node === undefined || time === undefined) return undefined;
    const { setup } = this.#file;
    const start = setup === undefined ? '' : `, and whether ${setup} ends`;
    const trying = readTrying(comment);
    const why = trying
      ? `pilot ${schedulerJob} on ${node}: ${remedyOf(trying.exitCode, { file: this.#file, words: trying.words })}`
      : `Look at node ${node}${start}: pilot ${schedulerJob} has run there for ${time} and not registered`;
    return {
      seconds: secondsOf(time),
      why: plainLine(`${why}; its log is ${node}:${logOf(this.#file, schedulerJob)}`),
      failing: trying !== undefined,
    };
  }

  async cancel(schedulerJobs: readonly string[]): Promise<void> {
    if (schedulerJobs.length === 0) return;
    const end = await ask('scancel', ['--quiet', ...schedulerJobs]);
    if (end.exitCode !== 0) throw problem('scancel', end);
  }

  async whyEnded(schedulerJob: string): Promise<string | undefined> {
    const end = await ask('scontrol', ['show', 'job', schedulerJob]);
    const field = (name: string): string | undefined =>
      new RegExp(`(?:^|\\s)${name}=(\\S+)`).exec(end.output ?? '')?.[1];
    const state = field('JobState');
    if (end.exitCode !== 0 || (state !== 'FAILED' && state !== 'TIMEOUT')) return undefined;
    const code = field('ExitCode') ?? '';
    const node = field('BatchHost') ?? field('NodeList') ?? 'a node';
    this.#ended = { schedulerJob, node };
    const comment = /^\s*Comment=(.+)$/m.exec(end.output ?? '')?.[1] ?? '';
    const log = code.startsWith(`${EXIT_NO_LOG}:`) ? '' : `; its log is ${node}:${logOf(this.#file, schedulerJob)}`;
    return plainLine(
      `pilot ${schedulerJob} on ${node}: ${remedyOf(code, { file: this.#file, words: readLastWords(comment) })}${log}`,
    );
  }

  nodeOf(schedulerJob: string): string | undefined {
    return this.#ended?.schedulerJob === schedulerJob ? this.#ended.node : this.#running.get(schedulerJob)?.node;
  }

  async gpus(): Promise<NodeGpus[]> {
    const format = Object.entries(NODE_COLUMNS).map(([name, width]) => `${name}:${width}`);
    const end = await ask('sinfo', ['--noheader', '--all', '--Node', `--Format=${format.join(',')}`]);
    if (end.exitCode !== 0) throw problem('sinfo', end);
    const rows = (end.output ?? '').split('\n').map(nodeColumns);
    return rows.flatMap(([name = '', node = '', offered = '', used = '', state = '']) => {
      const wanted = this.#file.partitions.find(({ partition }) => partition === name)?.gres;
      if (wanted === undefined || !TAKES_JOBS.test(state)) return [];
      const [kind] = gresOf(wanted) as [Gres];
      const count = (text: string): number =>
        gresOf(text).reduce((sum, one) => sum + (covers(one, { ...kind, count: 0 }) ? one.count : 0), 0);
      const total = count(offered);
      return [{ partition: name, node, total, free: Math.max(0, total - count(used)) }];
    });
  }

  get #script(): string {
    return join(this.#folder, 'pilot.sh');
  }
}

/** Columns of sinfo, wider than any text should be. */
const NODE_COLUMNS = { PartitionName: 64, NodeList: 128, Gres: 512, GresUsed: 512, StateCompact: 32 };

function nodeColumns(line: string): string[] {
  let from = 0;
  return Object.values(NODE_COLUMNS).map((width) => line.slice(from, (from += width)).trim());
}

/**
 * States of a node that accepts jobs. A node that is down, drained, reserved or unresponsive ("idle*") accepts none.
 */
const TAKES_JOBS = /^(?:idle|mix|alloc|comp|plnd)[~#+-]?$/;

/**
 * Slurm's reasons (squeue's %r) for which a pilot waits until somebody changes something. Reasons about resources in
 * use, also those of an account or QOS, are left out, because they pass when jobs end.
 */
const STUCK =
  /^(?:BadConstraints|Partition(?:Config|Down|Inactive|NodeLimit|TimeLimit)|\w*TimeLimit|\w*Per(?:Job|Node)(?:Limit)?|\w+NotSatisfied|Invalid\w+|\w+NotAllowed|AccountingPolicy|Reservation\w*|JobHeld\w+|ReqNodeNotAvail|MaxMemPerLimit|DependencyNeverSatisfied|FrontEndDown|SystemFailure|JobLaunchFailure|launch.failed)/;

/**
 * Checks Slurm and the file's partitions. Returns the reason if the controller does not answer, in which case jobs wait
 * until it does. Errors: UsageError if there is no Slurm, if it is too old, or if it lacks one of the file's partitions
 * or its GPUs.
 */
export async function checkSlurm(file: SlurmFile): Promise<string | undefined> {
  const { exitCode, output = '' } = await ask('sinfo', ['--version']);
  const version = Number(/^slurm(?:-wlm)? (\d+)\./.exec(output)?.[1]);
  if (exitCode !== 0 || Number.isNaN(version))
    throw new UsageError(
      'Install Slurm’s commands here (Debian: slurm-client) and give SLURM_CONF: sinfo does not run',
    );
  if (version < LEAST_VERSION)
    throw new UsageError(`Update Slurm to ${LEAST_VERSION}.02 or later: this is ${plainLine(output)}`);
  const partitions = await ask('sinfo', ['--noheader', '--all', '--format=%R|%G']);
  if (partitions.exitCode !== 0) {
    const { refused, message } = problem('sinfo', partitions);
    if (!refused) return message;
    throw new UsageError(`Look at SLURM_CONF: sinfo said: ${said(partitions.lines)}`);
  }
  const found = (partitions.output ?? '').split('\n').map((line) => line.split('|'));
  for (const { partition, gres } of file.partitions) {
    const own = found.filter(([name]) => name === partition);
    if (own.length === 0) {
      const names = [...new Set(found.map(([name]) => name).filter((name) => name !== ''))];
      throw new UsageError(`--slurm: partition ${partition}: must be one of ${names.join(', ')}`);
    }
    const offered = own.flatMap(([, text = '']) => gresOf(text));
    const [wanted] = gresOf(gres) as [Gres];
    if (!offered.some((one) => covers(one, wanted)))
      throw new UsageError(
        `--slurm: partition ${partition}: must be a GRES that one of its nodes has (GresTypes and gres.conf), got ${gres}: its nodes have ${said([[...new Set(own.map(([, text]) => text))].join(', ')])}`,
      );
  }
  return undefined;
}

/** A generic resource, as in sinfo's %G and a fleet file. */
interface Gres {
  name: string;
  /** Empty if any type will do. */
  type: string;
  count: number;
}

/** Parses a list such as "gpu:h200:4(S:0-1),shard:8"; "(null)" is an empty list. */
function gresOf(text: string): Gres[] {
  const parts = text
    .replaceAll(/\([^)]*\)/g, '')
    .split(',')
    .filter((part) => part !== '');
  return parts.map((part) => {
    const [name = '', ...rest] = part.split(':');
    const last = /^(\d+)([KMG]?)$/i.exec(rest.at(-1) ?? '');
    const type = (last ? rest.slice(0, -1) : rest).join(':');
    return { name, type, count: last ? Number(last[1]) * 1024 ** ' KMG'.indexOf((last[2] || ' ').toUpperCase()) : 1 };
  });
}

/** Whether a node that has one resource can run a job that asks for the other. */
const covers = (offered: Gres, wanted: Gres): boolean =>
  offered.name === wanted.name && (wanted.type === '' || offered.type === wanted.type) && offered.count >= wanted.count;

/** Runs one of Slurm's commands with only the environment variables that it needs. */
function ask(
  program: string,
  args: readonly string[],
  { signal = new AbortController().signal, extra = {} }: { signal?: AbortSignal; extra?: NodeJS.ProcessEnv } = {},
): ReturnType<typeof readProgram> {
  const kept = Object.fromEntries([...ENVIRONMENT, ...PILOT_ENVIRONMENT].map((name) => [name, process.env[name]]));
  return readProgram(program, args, {
    limitMs: LIMIT_MS,
    signal,
    maxBytes: MAX_OUTPUT_BYTES,
    environment: { ...kept, LC_ALL: 'C', ...extra },
  });
}

/** The seconds of "days-hours:minutes:seconds", of which Slurm omits the first parts where they are 0. */
function secondsOf(time: string): number {
  const [days, clock] = time.includes('-') ? (time.split('-') as [string, string]) : ['0', time];
  return clock.split(':').reduce((sum, part) => sum * 60 + Number(part), 0) + Number(days) * 86_400;
}

/**
 * The remedy for a pilot that never registered, by its exit code and its last words, which are missing if the node has
 * no scontrol.
 */
function remedyOf(exitCode: string, { file, words }: { file: SlurmFile; words: string | undefined }): string {
  const { bundle, scratch, setup } = file;
  const code = Number(exitCode.split(':')[0]);
  switch (code) {
    case EXIT_NO_LOG:
      return `Make scratch (${scratch}) a folder that its user owns and can write on the node`;
    case EXIT_NO_SETUP:
      return `Put the set-up script where the node can read it: there is no ${setup ?? ''}`;
    case 126:
    case 127:
      return `Put the bundle where the node can run it: there is no ${bundle}/flashcore-runner, or no node to run it`;
    case EXIT_SETUP_FAILED:
      return `Correct the set-up script ${setup ?? ''}, which failed on the node${words === undefined ? '' : `: ${words}`}`;
    default: {
      const remedy = unreachableRemedy(code, file);
      if (remedy !== undefined) return words === undefined ? remedy : `${remedy}: ${words}`;
      return words ?? `Read its log: it ended with ${exitCode}`;
    }
  }
}

const logOf = ({ scratch }: SlurmFile, schedulerJob: string): string => join(scratch, `pilot-${schedulerJob}.log`);

/**
 * Exit codes of the script itself: the node can't write the pilot's log, or the set-up script is missing or has failed.
 */
const EXIT_NO_LOG = 73;
const EXIT_NO_SETUP = 74;
const EXIT_SETUP_FAILED = 75;
const LOG_DAYS = 7;

/**
 * The script that every pilot runs. The log is in the scratch folder, which every node has; if another user owns the
 * folder, the script exits. `exec` replaces the shell, so that Slurm's SIGTERM reaches the pilot itself.
 */
export function pilotScript(
  { bundle, reach, scratch, scratch_gib: gib, setup, tls_ca: authority }: SlurmFile,
  isolation: IsolationWanted,
): string {
  const options = [
    ...['--gateway', reach, '--data', scratch],
    ...['--keep-artifacts-gib', String(gib), '--isolation', isolation],
    ...(authority ? ['--tls-ca', authority] : []),
  ];
  const folder = shellWord(scratch);
  return [
    '#!/bin/sh',
    'umask 077',
    `log=${folder}/pilot-$SLURM_JOB_ID.log`,
    `mkdir -p ${folder} && [ -O ${folder} ] && touch "$log" || exit ${EXIT_NO_LOG}`,
    `find ${folder} -maxdepth 1 -name 'pilot-*.log' -mtime +${LOG_DAYS} -delete`,
    'exec >>"$log" 2>&1',
    ...(setup === undefined
      ? []
      : [
          `[ -f ${shellWord(setup)} ] && [ -r ${shellWord(setup)} ] || exit ${EXIT_NO_SETUP}`,
          // The set-up script may also end this shell, by `exit` or by a mistake of syntax.
          `trap 'scontrol update JobId=$SLURM_JOB_ID Comment="${LAST_WORDS}exit status $?. $(tail -n 1 "$log" | cut -c 1-300)"; exit ${EXIT_SETUP_FAILED}' EXIT`,
          `. ${shellWord(setup)} || exit`,
          'trap - EXIT',
        ]),
    `exec ${[`${bundle}/flashcore-runner`, 'pilot', ...options].map(shellWord).join(' ')}`,
    '',
  ].join('\n');
}

interface CommandEnd {
  exitCode: number | undefined;
  timedOut: boolean;
  lines: string[];
}

function problem(program: string, end: CommandEnd): SchedulerError {
  if (end.exitCode === 127)
    return new SchedulerError(`Install Slurm's commands: there is no ${program}`, { refused: true });
  const what = end.timedOut ? `did not answer within ${LIMIT_MS / 1000} s` : `said: ${said(end.lines)}`;
  // Slurm's commands print this if the controller is unreachable. Any other error is about the request.
  const away =
    end.timedOut || end.lines.some((line) => /unable to contact|connection|timed out|communication/i.test(line));
  return new SchedulerError(
    away ? `Look at slurmctld: ${program} ${what}` : `Change the fleet file or Slurm's limits: ${program} ${what}`,
    { refused: !away },
  );
}
