import { existsSync, statSync, appendFileSync } from 'node:fs';
import path from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { runnerKernels } from '../connection/data-directory.ts';
import { instanceText, startHost, type HostedRunner } from '../connection/start-host.ts';
import { resolveTarget } from '../connection/target.ts';
import { tableOf } from '../present/blocks.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import {
  digestOf,
  hostFacts,
  install,
  lacking,
  missingForInstall,
  versionOf,
  type HostFacts,
} from '../remote/install.ts';
import { runHook, shownCommand } from '../remote/hooks.ts';
import { Instance } from '../remote/instance.ts';
import { isSshAddress, parseSshAddress, type SshAddress } from '../remote/ssh-address.ts';
import { sshHost } from '../remote/ssh-command.ts';
import { SshError } from '../remote/ssh-problem.ts';
import { settingsFile } from '../settings/settings.ts';
import type { CommandContext } from './context.ts';
import { watchIdle } from '../connection/idle-watch.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

interface HostOptions {
  readonly runner?: string;
  /** The runner given as the command's argument; empty if --runner names it. */
  readonly named: string;
  readonly bundle?: string;
}

/** `fa-tui host install|start|stop ssh://box`: installs the bundle on the host, starts the host, or stops it. */
export function hostCommand(action: string, options: HostOptions, context: CommandContext): Promise<ExitCode> {
  switch (action) {
    case 'install':
      return installOn(options, context);
    case 'start':
      return start(options, context);
    case 'stop':
      return stop(options, context);
    default:
      throw new UsageError(`host ${action}: must be install, start or stop`);
  }
}

/** Runs the start hook and waits for the runner. */
async function start({ named }: HostOptions, context: CommandContext): Promise<ExitCode> {
  const hosted = requireHosted(named, context);
  if (!hosted.hooks.start)
    throw new UsageError(
      `${hosted.runner} has no start command in its hooks: add it to ${settingsFile(context.surroundings.environment)}`,
    );
  const connection = await startHost(hosted);
  connection.close();
  context.report([`${hosted.runner}: started`]);
  return ExitCode.PASSED;
}

/** Runs the stop hook, unless the runner has jobs. */
async function stop({ named }: HostOptions, context: CommandContext): Promise<ExitCode> {
  const hosted = requireHosted(named, context);
  const { runner, hooks, environment } = hosted;
  if (!hooks.stop)
    throw new UsageError(`${runner} has no stop command in its hooks: add it to ${settingsFile(environment)}`);
  const jobs = await activeJobs(hosted, context);
  if (jobs > 0)
    throw new FlashcoreError(
      'INVALID_REQUEST',
      { runner },
      `${runner} has ${jobs} job${jobs === 1 ? '' : 's'}: cancel them (fa-tui cancel), or wait for their end; the host is stopped only without`,
    );
  context.note(`host: ${shownCommand(hooks.stop)}`);
  await runHook({ what: 'stop', runner, command: hooks.stop, hooks, environment });
  const instance = new Instance(runner, environment);
  const was = instanceText(instance.read());
  instance.endWatch();
  instance.forget();
  context.report([`${runner}: stopped${was === undefined ? '' : `; it was ${was}`}`]);
  return ExitCode.PASSED;
}

/**
 * Number of active jobs; 0 if no runner is listening. Errors: INVALID_REQUEST if there may be jobs that cannot be
 * counted.
 */
async function activeJobs({ runner, hooks, connect }: HostedRunner, context: CommandContext): Promise<number> {
  try {
    const connection = await connect();
    const { activeJobs: jobs } = connection.client.host;
    connection.close();
    return jobs;
  } catch (error) {
    if (!(error instanceof FlashcoreError)) throw error;
    if (!hasNoRunner(error))
      throw new FlashcoreError(
        'INVALID_REQUEST',
        { runner },
        `${runner} may have jobs and could not be asked: correct that, or stop it by hand (${shownCommand(hooks.stop!)}); ${error.message}`,
        { cause: error },
      );
    context.note(`runner: ${error.message}`);
    return 0;
  }
}

/**
 * True if the host is down or no runner listens on it. Behind ssh, only ssh's own error can tell. Without ssh, a runner
 * that can't be reached is assumed not to be running.
 */
const hasNoRunner = (error: FlashcoreError): boolean =>
  error instanceof SshError
    ? error.standing === 'down' || error.standing === 'no-runner'
    : error.reason === 'RUNNER_UNREACHABLE' && !isSshAddress(error.metadata.address ?? '');

function requireHosted(named: string, context: CommandContext): HostedRunner {
  const hosted = context.hosted(named || context.runner());
  if (hosted) return hosted;
  throw new UsageError(
    `No hooks for ${named || context.runner() || 'the runner of this machine'} in ${settingsFile(context.surroundings.environment)}: add hooks with its address or name`,
  );
}

/** Copies the bundle, then prints which tools the host has and which it lacks. */
async function installOn(options: HostOptions, context: CommandContext): Promise<ExitCode> {
  const address = sshAddress(options, context);
  const { environment } = context.surroundings;
  const { mayAsk } = context;
  const host = await sshHost(address, environment);
  const facts = await hostFacts(host, environment, mayAsk);
  const file = bundleFile(options.bundle, facts);
  const problem = missingForInstall(facts);
  if (problem !== undefined) throw new UsageError(`${address.text}: ${problem}`);
  const digest = await digestOf(file);
  const isThere = facts.current === versionOf(digest);
  if (!isThere) {
    context.note(`copying ${path.basename(file)}, ${(statSync(file).size / 1e6).toFixed(1)} MB, to ${address.text}`);
    context.note(`it runs there: ${await install(host, { file, digest }, { environment, mayAsk })}`);
  }
  const lacks = lacking(facts);
  const folder = `${facts.folder}/${versionOf(digest)}`;
  if (context.options.json)
    context.document({ ...facts, address: address.text, folder, digest, copied: !isThere, lacks });
  else {
    const rows: (readonly [string, string])[] = [
      ['installed', isThere ? `${folder} (was there already)` : folder],
      ['sha256', digest],
      ...facts.gpus.map((gpu) => ['gpu', gpu] as const),
      ...Object.entries(facts.programs).filter(([name]) => TOLD.includes(name)),
      ...lacks.map((text) => ['lacks', text] as const),
    ];
    context.show([
      tableOf(
        [
          { title: 'host', cell: ([name]: readonly [string, string]) => name },
          { title: address.text, shrinkTo: 20, cell: ([, value]) => sanitize(value) },
        ],
        rows,
      ),
    ]);
  }
  context.note(`Use it: fa-tui --runner ${address.text} --start-runner`);
  return ExitCode.PASSED;
}

const TOLD = ['nvcc', 'g++', 'bwrap', 'ncu', 'python3'];

/** The ssh address from the argument, --runner or the configured runner, in this order. */
function sshAddress({ named, runner }: HostOptions, context: CommandContext): SshAddress {
  const { environment } = context.surroundings;
  const text = named || runner || context.runner();
  if (!text) throw new UsageError('host install: give a host, such as ssh://gpu-box');
  const { address } = resolveTarget(text, {}, environment);
  if (isSshAddress(address)) return parseSshAddress(address);
  throw new UsageError(`host install ${address}: must be a host that ssh reaches, such as ssh://gpu-box`);
}

/** The bundle for the host's system. */
function bundleFile(given: string | undefined, { platform }: HostFacts): string {
  if (given !== undefined) {
    if (existsSync(given)) return given;
    throw new UsageError(`--bundle ${given}: there is no such file; npx nx bundle runner makes one in out/`);
  }
  const file = path.resolve(runnerKernels(), '../out', `flashcore-runner-${platform}.tar.xz`);
  if (existsSync(file)) return file;
  throw new UsageError(
    `No bundle at ${file}: make one (npx nx bundle runner, on ${platform}), or name one with --bundle`,
  );
}

/** `fa-tui __idle <runner>`: watches the host until it has stopped the host or failed to. */
export async function idleWatch(runner: string, context: CommandContext): Promise<ExitCode> {
  const hosted = context.hosted(runner);
  const { stop, stopAfterIdleMinutes } = hosted?.hooks ?? {};
  if (!hosted || !stop || stopAfterIdleMinutes === undefined) return ExitCode.PASSED;
  const instance = new Instance(hosted.runner, hosted.environment);
  const log = (text: string): void =>
    appendFileSync(instance.logFile, `${new Date().toISOString()} ${text}\n`, { mode: 0o600 });
  await watchIdle({ ...hosted, hooks: { ...hosted.hooks, stop, stopAfterIdleMinutes }, log });
  return ExitCode.PASSED;
}
