/** The user's commands that start and stop a host. They are programs with arguments and run without a shell. */
import { spawn } from 'node:child_process';
import { FlashcoreError } from '@flashcore/shared/contract';
import { killProcessGroup, withoutSecrets } from '@flashcore/shared/files';
import { shellWord } from '@flashcore/shared/text';
import { expiredLogin } from './expired-login.ts';
import { lastLines } from './ssh-problem.ts';

/** Settings of a host, found by the runner's name. */
export interface Hooks {
  /** Program and arguments. Exit code 0 means that the host is up or starting. */
  readonly start?: readonly string[] | undefined;
  readonly stop?: readonly string[] | undefined;
  /** The command that renews a login, only for messages. */
  readonly login?: string | undefined;
  readonly usdPerHour?: number | undefined;
  readonly stopAfterIdleMinutes?: number | undefined;
  /** Time limit of each command, and of the wait for the runner afterwards. */
  readonly limitMinutes: number;
}

interface HookRun {
  /** Which hook this is, for messages. */
  readonly what: 'start' | 'stop';
  readonly runner: string;
  readonly command: readonly string[];
  readonly hooks: Hooks;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal | undefined;
}

const MAX_OUTPUT = 16 * 1024;
/** Limit on waiting for the rest of the output after the command has ended. */
const OUTPUT_LIMIT_MS = 1_000;

export const shownCommand = (command: readonly string[]): string => command.map(shellWord).join(' ');

/**
 * Runs a hook to its end. At its time limit the hook is killed with all processes that it started. Errors:
 * RUNNER_UNREACHABLE with the hook's output, UNAUTHENTICATED if the output reports an expired login; the signal's
 * reason.
 */
export async function runHook(run: HookRun): Promise<void> {
  const { what, runner, command, hooks, environment, signal } = run;
  signal?.throwIfAborted();
  const [program, ...args] = command;
  const child = spawn(program!, args, {
    detached: true,
    env: withoutSecrets(environment),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  let why = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-MAX_OUTPUT)));
  const kill = (reason: string): void => {
    why ||= reason;
    killProcessGroup(child.pid);
  };
  const timer = setTimeout(
    () => kill(`did not end within ${hooks.limitMinutes} min and was killed`),
    hooks.limitMinutes * 60_000,
  );
  let outputTimer: NodeJS.Timeout | undefined;
  const onAbort = (): void => kill('was ended');
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    const end = await new Promise<string>((resolve) => {
      child.on('error', (error: NodeJS.ErrnoException) => resolve(whyNotStarted(error)));
      child.once('exit', () => {
        clearTimeout(timer);
        // A process that the hook left running may keep the pipes open forever.
        outputTimer = setTimeout(
          () => [child.stdout, child.stderr].forEach((stream) => stream.destroy()),
          OUTPUT_LIMIT_MS,
        );
      });
      child.on('close', (code, killedBy) => {
        if (killedBy !== null) resolve(`was ended by ${killedBy}`);
        else resolve(code === 0 ? '' : `ended with status ${code}`);
      });
    });
    signal?.throwIfAborted();
    if (why || end) throw hookError(run, why || end, said);
  } finally {
    clearTimeout(timer);
    clearTimeout(outputTimer);
    signal?.removeEventListener('abort', onAbort);
  }

  function hookError({ hooks: { login } }: HookRun, how: string, output: string): FlashcoreError {
    const expired = expiredLogin(output, login);
    const tail = lastLines(output);
    return new FlashcoreError(
      expired === undefined ? 'RUNNER_UNREACHABLE' : 'UNAUTHENTICATED',
      { runner },
      `${expired ?? `The ${what} hook of ${runner} failed: correct it, or ${what} the host by hand`}; ${shownCommand(command)} ${how}${tail === '' ? '' : `; it said: ${tail}`}`,
    );
  }
}

/**
 * The reason why a hook did not start. A missing program also gives EACCES if this user can't read a folder of PATH.
 */
function whyNotStarted({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return 'was not found';
  return code === 'EACCES' ? 'was not found, or may not be run' : `could not be started (${message})`;
}
