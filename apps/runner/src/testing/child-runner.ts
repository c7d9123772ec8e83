import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The daemon with the fake planner, as a separate process. */
export interface ChildRunner extends AsyncDisposable {
  address: string;
  child: ChildProcess;
  /** Its output on stderr so far. */
  readonly stderr: string;
  /** Resident memory, MiB (Linux). */
  rssMiB: () => number;
  /** Memory in use after a garbage collection, MiB; for a daemon started with NODE_OPTIONS=--expose-gc. */
  liveMiB: () => Promise<number>;
  /** Sends a signal and waits for the end; returns the exit code, or null if the signal ended the process. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/** Starts the daemon with these flags and waits until it serves. Throws its stderr if it ends before. */
export async function startChildRunner(...flags: string[]): Promise<ChildRunner> {
  return startChildRunnerIn(process.env, ...flags);
}

/** Like startChildRunner(), in a given environment. */
export async function startChildRunnerIn(environment: NodeJS.ProcessEnv, ...flags: string[]): Promise<ChildRunner> {
  return start([process.execPath, MAIN, 'serve', ...flags], environment);
}

/** Like startChildRunner(), with a limit on open files and sockets. */
export async function startChildRunnerWithDescriptors(descriptors: number, ...flags: string[]): Promise<ChildRunner> {
  return start(
    ['/bin/sh', '-c', `ulimit -n ${descriptors}; exec "$@"`, 'sh', process.execPath, MAIN, 'serve', ...flags],
    process.env,
  );
}

/** Starts a gateway of the cluster described by a fleet file, with a folder as scheduler (fake-gateway-main.ts). */
export async function startChildGateway(file: string, folder: string, ...flags: string[]): Promise<ChildRunner> {
  return startChildGatewayIn(process.env, file, folder, ...flags);
}

/** Like startChildGateway(), in a given environment. */
export async function startChildGatewayIn(
  environment: NodeJS.ProcessEnv,
  file: string,
  folder: string,
  ...flags: string[]
): Promise<ChildRunner> {
  return start([process.execPath, GATEWAY, file, folder, 'serve', ...flags], environment);
}

/** A single file if the tests have built it (tools/build-for-tests.ts). */
const program = (name: string): string => {
  const folder = process.env['FLASHCORE_PROGRAMS'];
  return folder ? join(folder, `${name}.js`) : join(import.meta.dirname, `${name}.ts`);
};
const GATEWAY = program('fake-gateway-main');
const MAIN = program('fake-runner-main');

async function start([program, ...args]: string[], environment: NodeJS.ProcessEnv): Promise<ChildRunner> {
  const child = spawn(program!, args, { stdio: ['ignore', 'pipe', 'pipe'], env: environment });
  const texts = { stderr: '' };
  child.stderr.on('data', (data: Buffer) => {
    texts.stderr += data.toString();
  });
  const exited = once(child, 'close') as Promise<[number | null]>;
  const address = await Promise.race([
    once(child.stdout, 'data').then(([data]) => String(data).trim()),
    exited.then(() => {
      throw new Error(texts.stderr);
    }),
  ]);
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    child.kill(signal);
    return (await exited)[0];
  };
  return {
    address,
    child,
    end,
    get stderr() {
      return texts.stderr;
    },
    rssMiB: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / 1024,
    liveMiB: async () => {
      const answer = once(child.stdout, 'data');
      child.kill('SIGUSR2');
      return Number(String((await answer)[0])) / 1024 ** 2;
    },
    async [Symbol.asyncDispose]() {
      await end('SIGKILL');
    },
  };
}
