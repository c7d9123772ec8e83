import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, existsSync } from 'node:fs';
import { connect as connectHttp2, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { connect } from 'node:net';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { WatchJobRequestSchema } from '@flashcore/shared/contract';
import { waitFor } from '@flashcore/shared/testing';

/** The daemon with the fake planner, as a separate process. */
export interface ChildRunner extends AsyncDisposable {
  address: string;
  child: ChildProcess;
  /** The daemon's output on stderr so far. */
  readonly stderr: string;
  /** Resident memory, MiB (Linux). */
  rssMiB: () => number;
  /** Memory in use after a garbage collection, MiB; for a daemon started with NODE_OPTIONS=--expose-gc. */
  liveMiB: () => Promise<number>;
  /** Sends a signal and waits for the end; returns the exit code, or null if the signal ended the process. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/** Resident memory of a process, MiB (Linux). */
export const residentMib = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

/** Starts the daemon with these flags and waits until it serves. Throws the daemon's stderr if it ends before that. */
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

/** Starts a gateway of the cluster described by a fleet file, with a folder as scheduler (fake-runner-main.ts). */
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
  return start([process.execPath, MAIN, 'gateway', file, folder, 'serve', ...flags], environment);
}

/** Folder with the daemon as a single file, if the tests have built it (tools/build-for-tests.ts). */
const PROGRAMS = process.env['FLASHCORE_PROGRAMS'];
const MAIN = PROGRAMS ? join(PROGRAMS, 'fake-runner-main.js') : join(import.meta.dirname, 'fake-runner-main.ts');

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
    rssMiB: () => residentMib(child.pid!),
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

/**
 * Whether a process ends within two seconds (Linux). A zombie is treated as ended: its memory, files and devices are
 * free, and only its exit status has not been read.
 */
export async function processGone(pid: number): Promise<boolean> {
  return await waitFor(`process ${pid} to end`, () => !runs(pid) || undefined, 2_000).catch(() => !runs(pid));
}

/** Whether the process exists and is not a zombie. */
function runs(pid: number): boolean {
  try {
    return existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}

/**
 * A connection for streams that are never read. It uses plain HTTP/2, because grpc-js's client reads ahead without
 * bound.
 */
export function unreadConnection(address: string): ClientHttp2Session {
  const session = connectHttp2('http://localhost', { createConnection: () => connect(address.slice('unix:'.length)) });
  session.on('error', () => undefined); // The test closes the session.
  return session;
}

/** A stream of a job's events that is never read. */
export function unreadWatch(session: ClientHttp2Session, job: string): ClientHttp2Stream {
  const stream = session.request({
    ':method': 'POST',
    ':path': '/flashcore.runner.v1.KernelRunnerService/WatchJob',
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  stream.on('error', () => undefined);
  const message = toBinary(WatchJobRequestSchema, create(WatchJobRequestSchema, { name: job }));
  stream.end(Buffer.from([0, 0, 0, 0, message.length, ...message]));
  return stream;
}

/**
 * Runs a module, given as text, that starts a process and prints its id, and kills the module with SIGKILL. Returns
 * whether the started process ran, and whether it then ended.
 */
export async function killedWithRunner(script: string): Promise<{ ran: boolean; ended: boolean }> {
  const runner = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [pid] = (await once(runner.stdout, 'data')) as [Buffer];
  const ran = runs(Number(pid));
  runner.kill('SIGKILL');
  return { ran, ended: await processGone(Number(pid)) };
}
