import { spawn } from 'node:child_process';
import { closeSync, existsSync, fstatSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { withoutSecrets } from '@flashcore/shared/files';

/** A runner process that was started but does not answer yet. */
export interface RunnerLaunch {
  /** Throws RUNNER_UNREACHABLE if the runner ended, unless it ended because another runner got the directory first. */
  throwIfFailed(): void;
  /** Ends the runner if it is still running. */
  abandon(): void;
  /** The last log lines since the start, as "Its log ends: ...". */
  logTail(): string;
}

interface LaunchOptions {
  readonly program: string;
  readonly directory: string;
  readonly environment: NodeJS.ProcessEnv;
}

/** With this flag a start is over before the first garbage collection. bin/flashcore-runner.js sets the same flag. */
const NODE_FLAGS = ['--min-semi-space-size=32'];
const LOG_TAIL_LINES = 12;
// Time that a client whose runner lost the race waits for the winner, which takes the lock before it answers.
const RACE_LIMIT_MS = 8_000;

/** Starts a runner as a process in its own session, so that Ctrl-C and the end of this terminal do not reach it. */
export function launchRunner({ program, directory, environment }: LaunchOptions): RunnerLaunch {
  const logFile = path.join(directory, 'runner.log');
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
  const launch = { ended: undefined as string | undefined, at: 0 };
  child.on('error', (error) => Object.assign(launch, { ended: error.message, at: performance.now() }));
  child.on('exit', (code, signal) =>
    Object.assign(launch, {
      ended: signal ? `ended by ${signal}` : `ended with status ${code}`,
      at: performance.now(),
    }),
  );
  const logTail = () => tailOf(logFile, logStart);
  return {
    logTail,
    abandon: () => void child.kill('SIGKILL'),
    throwIfFailed() {
      if (launch.ended === undefined || (lostTheRace(logTail()) && performance.now() - launch.at < RACE_LIMIT_MS))
        return;
      throw new FlashcoreError(
        'RUNNER_UNREACHABLE',
        { directory },
        `The embedded runner of ${directory} ${launch.ended}. ${logTail()}`,
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

const lostTheRace = (log: string): boolean => log.includes("two can't share one");

function tailOf(file: string, from: number): string {
  const text = existsSync(file) ? readFileSync(file).subarray(from).toString('utf8').trim() : '';
  if (text === '') return `Its log ${file} says nothing`;
  return `Its log ends:\n${text
    .split('\n')
    .slice(-LOG_TAIL_LINES)
    .map((line) => `  ${line}`)
    .join('\n')}`;
}
