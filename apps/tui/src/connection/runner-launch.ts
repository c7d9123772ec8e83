import { spawn } from 'node:child_process';
import { closeSync, existsSync, fstatSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { withoutSecrets } from '@flashcore/shared/files';

/** A runner process that was started but does not answer yet. */
export interface RunnerLaunch {
  /** Throws RUNNER_UNREACHABLE if the runner ended, unless it ended because another runner got the directory first. */
  throwIfFailed(): void;
  /** True if the runner ended because another runner got the directory first. */
  lost(): boolean;
  /** Ends the runner if it is still running. */
  abandon(): void;
}

interface LaunchOptions {
  readonly program: string;
  readonly directory: string;
  readonly environment: NodeJS.ProcessEnv;
}

/** With this flag a start is over before the first garbage collection. bin/flashcore-runner.js sets the same flag. */
const NODE_FLAGS = ['--min-semi-space-size=32'];
const LOG_TAIL_LINES = 12;

/** The log of the runners that clients start. */
export const logOf = (directory: string): string => path.join(directory, 'runner.log');

/** Starts a runner as a process in its own session, so that Ctrl-C and the end of this terminal do not reach it. */
export function launchRunner({ program, directory, environment }: LaunchOptions): RunnerLaunch {
  const logFile = logOf(directory);
  const log = openSync(logFile, 'a', 0o600);
  const logStart = fstatSync(log).size;
  const child = spawn(process.execPath, [...NODE_FLAGS, program, 'serve', '--embedded', '--data', directory], {
    detached: true,
    stdio: ['ignore', log, log],
    cwd: '/',
    env: withoutSecrets(environment),
  });
  closeSync(log);
  child.unref();
  let ended: string | undefined;
  let lostRace = false;
  child.on('error', (error) => (ended = error.message));
  child.on('exit', (code, signal) => {
    ended = signal ? `ended by ${signal}` : `ended with status ${code}`;
    lostRace = saidSince(logFile, logStart).includes("two can't share one");
  });
  return {
    lost: () => lostRace,
    abandon: () => void child.kill('SIGKILL'),
    throwIfFailed() {
      if (ended === undefined || lostRace) return;
      throw new FlashcoreError(
        'RUNNER_UNREACHABLE',
        { directory },
        `The embedded runner of ${directory} ${ended}${lastWords(logFile, logStart)}`,
      );
    },
  };
}

interface RunnerCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
  /** Receives the program's standard output. Its standard error goes to the standard error of this process. */
  readonly stdout: { write(text: string): unknown };
}

/** Runs a command of the runner's program and returns the exit status. */
export async function runRunnerCommand({ program, args, environment, stdout }: RunnerCommand): Promise<number> {
  if (!existsSync(program))
    throw new FlashcoreError(
      'RUNNER_UNREACHABLE',
      { program },
      `There is no runner at ${program}. Run: npm ci --ignore-scripts=false`,
    );
  const child = spawn(process.execPath, [...NODE_FLAGS, program, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: withoutSecrets(environment),
  });
  child.stdout.setEncoding('utf8').on('data', (text: string) => void stdout.write(text));
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  child.once('error', reject);
  child.once('close', (code, signal) => {
    if (code !== null) resolve(code);
    else reject(new FlashcoreError('INTERNAL', { program }, `The runner's ${args[0]} was ended by ${signal}`));
  });
  return promise;
}

/** The log's text after `from`, which other runners of the folder may have written too. */
const saidSince = (file: string, from: number): string =>
  existsSync(file) ? readFileSync(file).subarray(from).toString('utf8') : '';

/** The last lines for people that the runner wrote to its log; the log's own records are for programs. */
function lastWords(file: string, from: number): string {
  const lines = saidSince(file, from)
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('{"level":'))
    .slice(-LOG_TAIL_LINES);
  if (lines.length === 0) return `; see ${file}`;
  return `. Its log ${file} ends:\n${lines.map((line) => `  ${line}`).join('\n')}`;
}
