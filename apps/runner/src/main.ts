import './memory.ts';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { exitCodeOfError, FlashcoreError, UsageError } from '@flashcore/shared/contract';
import { addProblemFolders, requireProblems } from '@flashcore/shared/kernels';
import packageJson from '../package.json' with { type: 'json' };
import { createLogger, type Logger } from './log.ts';
import { parseOptions } from './options.ts';
import type { ServeOptions } from './serve-options.ts';
import { createPlanner, type PlannerOptions } from './experiment/planner.ts';
import { createGateway } from './fleet/gateway.ts';
import { checkKubernetes, Kubernetes } from './fleet/kubernetes.ts';
import type { Scheduler } from './fleet/scheduler.ts';
import { checkSlurm, Slurm } from './fleet/slurm.ts';
import { GatewayUnreachable } from './fleet/pilot-connection.ts';
import type { JobPlanner } from './jobs/job-context.ts';
import { readServerTls } from './access/certificates.ts';
import { runPilot } from './pilot-main.ts';
import { traceTarget } from './operation/tracing.ts';
import { findGroups } from './sandbox/groups.ts';
import { AddressInUse, mostDescriptors } from './rpc/listen.ts';
import { startRunner } from './runner.ts';
import { DirectoryInUse, networkDisk } from './store/directory-lock.ts';
import { UnknownSchema } from './store/migrations.ts';

const EXIT_USAGE = 2;
const EXIT_CANNOT_RUN = 3;
/**
 * Least number of file descriptors. Database, sockets and compilers need about sixty; with too few, they would fail one
 * by one with different errors.
 */
const LEAST_DESCRIPTORS = 96;

// Every file that the runner makes is private to its user, in any folder.
process.umask(0o077);

/**
 * The daemon: serves until SIGTERM or SIGINT and exits with 0; 2 for a wrong command line or problem, 3 when it cannot
 * run.
 */
async function main(): Promise<void> {
  const { version } = packageJson;
  const mainFile = fileURLToPath(import.meta.url);
  const repositoryRoot = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '');
  let command: (() => Promise<void>) | undefined;
  const options = parseOptions(process.argv.slice(2), {
    version,
    repositoryRoot,
    environment: process.env,
    defer: (work) => {
      command = work;
    },
  });
  await command?.();
  if (!options) return;

  requireNotRoot(options);
  requireDescriptors();
  addProblemFolders(options.problemFolders);
  // An embedded runner reports an invalid problem only when a kernel names it.
  if (!options.embedded) requireProblems();
  const logger = createLogger(options.logLevel);
  checkDisk(options, logger);
  const buildId = digestOf(mainFile, join(dirname(mainFile), 'worker.js'));
  if (options.pilot)
    return runPilot({
      pilot: options.pilot,
      serve: options,
      environment: process.env,
      version,
      buildId,
      repositoryRoot,
    });
  const runner = await startRunner({
    ...options,
    version,
    buildId,
    repositoryRoot,
    logger,
    createPlanner: await plannerOf(options),
    findGroups: (dataDirectory) => findGroups({ limits: options.boxLimits, dataDirectory }),
    traces: traceTarget(process.env),
  });
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => runner.stop());
  logger.info({ address: runner.address, data: options.dataDirectory, version, buildId }, 'serving');
  if (!options.embedded) process.stdout.write(`flashcore runner ${version} serves on ${runner.address}\n`);
  await runner.ended;
}

/**
 * Returns the function that makes the planner of this host or of a cluster. Errors: UsageError if the cluster does not
 * match its file.
 */
async function plannerOf({ fleet: file, security }: ServeOptions): Promise<(options: PlannerOptions) => JobPlanner> {
  if (!file) return createPlanner;
  const schedulerProblem = await (file.scheduler === 'slurm' ? checkSlurm(file) : checkKubernetes(file));
  const tls = security && readServerTls(security.folder);
  return (options) => {
    if (schedulerProblem !== undefined)
      options.logger.warn({ schedulerProblem }, 'jobs wait until the scheduler answers');
    // If the gateway's clients authenticate, the nodes must have a sandbox too, because they may share the gateway's
    // home.
    const isolation = options.isolation ?? 'auto';
    const scheduler = (folder: string): Scheduler =>
      file.scheduler === 'slurm' ? new Slurm(file, folder, isolation) : new Kubernetes(file, folder, isolation);
    return createGateway(options, { file, tls, scheduler, schedulerProblem });
  };
}

try {
  await main();
  // A pipe accepts long output piece by piece; exiting now would cut it.
  await new Promise((printed) => process.stdout.write('', printed));
  process.exit();
} catch (error) {
  process.exitCode = exitCode(error);
  process.stderr.write(
    `flashcore-runner: ${error instanceof Error && isExpected(error) ? error.message : String((error as Error)?.stack ?? error)}\n`,
  );
  process.exit();
}

/**
 * Digest of the daemon and its worker process, in this order. fa-tui computes the same digest from the files on disk to
 * see whether a runner is up to date with them.
 */
function digestOf(...files: string[]): string {
  const hash = createHash('sha256');
  for (const file of files) hash.update(readFileSync(file));
  return hash.digest('hex');
}

/** A candidate that escapes from its sandbox would be root, so serving as root must be a deliberate choice. */
function requireNotRoot({ allowRoot, embedded }: ServeOptions): void {
  if (process.getuid?.() !== 0 || allowRoot || embedded) return;
  throw new UsageError(
    'The runner was started as root: serve as a separate user (as tools/systemd/flashcore-runner.service does), or give --allow-root',
  );
}

/**
 * Refuses a network disk for a gateway, where its database can be damaged. A runner of one host may serve from a home
 * on NFS.
 */
function checkDisk({ dataDirectory, fleet }: ServeOptions, logger: Logger): void {
  const disk = networkDisk(dataDirectory);
  if (disk === undefined) return;
  if (fleet)
    throw new UsageError(
      `Give --data <folder> on a disk of this machine: ${dataDirectory} is on ${disk}, where the database of jobs and leases can be damaged, and nodes need not see it`,
    );
  logger.warn(
    { data: dataDirectory, disk },
    'the data folder is on a file system of a network, where its database can be damaged: give --data or FLASHCORE_HOME a folder on a disk of this machine',
  );
}

function requireDescriptors(): void {
  const most = mostDescriptors();
  if (most >= LEAST_DESCRIPTORS) return;
  throw new UsageError(
    `Raise the limit of open files (ulimit -n 1024, LimitNOFILE= of a systemd unit): a runner needs ${LEAST_DESCRIPTORS}, ${most} are allowed here`,
  );
}

function exitCode(error: unknown): number {
  if (error instanceof GatewayUnreachable) return error.exitCode;
  // A wrong problem gives check-problem the same exit status as it gives a job.
  if (error instanceof FlashcoreError) return exitCodeOfError(error.reason);
  return error instanceof UsageError ? EXIT_USAGE : EXIT_CANNOT_RUN;
}

/**
 * Whether the error's message suffices without a stack: true for our own errors, and for the system's errors about
 * files and sockets, which name call and path.
 */
function isExpected(error: Error): boolean {
  return (
    [UsageError, AddressInUse, DirectoryInUse, FlashcoreError, GatewayUnreachable, UnknownSchema].some(
      (kind) => error instanceof kind,
    ) || 'syscall' in error
  );
}
