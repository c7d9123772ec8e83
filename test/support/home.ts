/** A data directory for one test, in which fa-tui and the daemon run as they do for a user. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fromJson, type JsonValue } from '@bufbuild/protobuf';
import { GetJobResponseSchema, type GetJobResponse } from '@flashcore/shared/contract';
import { waitFor } from '@flashcore/shared/testing';

export const ROOT = join(import.meta.dirname, '../..');
const BIN = join(ROOT, 'node_modules/.bin');
const RUNNER = join(BIN, 'flashcore-runner');

export interface CommandResult {
  exitCode: number | null;
  stdout: string;
  stderr: string;
}

interface RunOptions {
  cwd?: string;
  timeoutMs?: number;
  env?: Record<string, string>;
  input?: string;
}

export class Home implements AsyncDisposable {
  readonly #environment: Record<string, string>;
  readonly #prefix: string;
  #path: string | undefined;
  #env: ReturnType<typeof environmentOf> | undefined;
  #daemons: ChildProcess[] = [];

  /**
   * The test's runner and fa-tui get the test's environment with `environment` added. The folder's name begins with
   * `prefix`, which must be short, because a Unix socket's path has to stay below 108 bytes.
   */
  constructor(environment: Record<string, string> = {}, prefix = 'fc-') {
    this.#environment = environment;
    this.#prefix = prefix;
  }

  /** Made on first use, because nothing would remove the folder if all tests of a file were skipped. */
  get path(): string {
    this.#path ??= mkdtempSync(join(tmpdir(), this.#prefix));
    return this.#path;
  }

  get env(): ReturnType<typeof environmentOf> {
    this.#env ??= Object.assign(environmentOf(this.path), this.#environment);
    return this.#env;
  }

  /** Runs `fa-tui` to its end, in the repository's root unless `cwd` names another folder. */
  faTui(args: string[], options: RunOptions = {}): CommandResult {
    return this.#run(join(BIN, 'fa-tui'), args, options);
  }

  /** Runs a command of `flashcore-runner` that ends by itself. */
  runnerCommand(args: string[], options: { timeoutMs?: number; env?: Record<string, string> } = {}): CommandResult {
    return this.#run(RUNNER, args, options);
  }

  #run(
    program: string,
    args: string[],
    { cwd = ROOT, env, timeoutMs = 120_000, input = '' }: RunOptions,
  ): CommandResult {
    const result = spawnSync(program, args, {
      cwd,
      env: { ...this.env, ...env },
      encoding: 'utf8',
      timeout: timeoutMs,
      input,
      maxBuffer: 64 * 1024 * 1024,
    });
    return { exitCode: result.status, stdout: result.stdout, stderr: result.stderr };
  }

  /** Runs `fa-tui … --json` and decodes the document by the proto's JSON mapping. */
  runJson(args: string[], options: RunOptions = {}): CommandResult & { response: GetJobResponse } {
    const result = this.faTui([...args, '--json'], options);
    try {
      return { ...result, response: fromJson(GetJobResponseSchema, JSON.parse(result.stdout) as JsonValue) };
    } catch (cause) {
      throw new Error(
        `fa-tui ${args.join(' ')} printed no GetJobResponse (exit ${result.exitCode})\nstdout: ${result.stdout.slice(0, 2000)}\nstderr: ${result.stderr.slice(-2000)}`,
        { cause },
      );
    }
  }

  /** Starts the daemon on a free loopback port and returns its address. */
  startDaemon(): Promise<{ address: string; process: ChildProcess }> {
    return this.startDaemonAt('127.0.0.1:0');
  }

  startDaemonAt(address: string, ...flags: string[]): Promise<{ address: string; process: ChildProcess }> {
    return this.#startRunner('serve', '--address', address, ...flags);
  }

  /** Starts a gateway for the cluster that a fleet file describes. */
  startGateway(
    file: string,
    address = '127.0.0.1:0',
    ...flags: string[]
  ): Promise<{ address: string; process: ChildProcess }> {
    return this.#startRunner('gateway', '--slurm', file, '--address', address, ...flags);
  }

  async #startRunner(command: string, ...flags: string[]): Promise<{ address: string; process: ChildProcess }> {
    const daemon = spawn(RUNNER, [command, '--data', this.path, ...flags], {
      env: this.env,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#daemons.push(daemon);
    let log = '';
    daemon.stderr.setEncoding('utf8').on('data', (text: string) => {
      log += text;
    });
    const listening = await waitFor(
      'the daemon to write runner.json',
      () => {
        if (daemon.exitCode !== null) throw new Error(`the daemon ended with exit code ${daemon.exitCode}: ${log}`);
        const info = this.runnerInfo();
        return info?.pid === daemon.pid ? info?.address : undefined;
      },
      60_000,
    );
    return { address: listening, process: daemon };
  }

  /** The contents of this data directory's runner.json; undefined if there is none. */
  runnerInfo(): { pid: number; address: string } | undefined {
    try {
      return JSON.parse(readFileSync(join(this.path, 'runner.json'), 'utf8')) as { pid: number; address: string };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT' || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  /** Ends the daemons, including the embedded runner, and removes the directory. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#path === undefined) return;
    const info = this.runnerInfo();
    for (const pid of [info?.pid, ...this.#daemons.map((daemon) => daemon.pid)]) {
      if (pid === undefined || !isAlive(pid)) continue;
      process.kill(pid, 'SIGTERM');
      await waitFor(`process ${pid} to end`, () => !isAlive(pid) || undefined);
    }
    rmSync(this.path, { recursive: true, force: true, maxRetries: 3 });
  }
}

const environmentOf = (home: string) => ({
  ...process.env,
  FLASHCORE_HOME: home,
  // Keeps the tests away from the user's settings and state on this machine.
  XDG_CONFIG_HOME: join(home, 'config'),
  XDG_STATE_HOME: join(home, 'state'),
  NO_COLOR: '1',
  PATH: `${BIN}${delimiter}${process.env['PATH']}`,
});

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A zombie (a child that this process has not yet waited for) also has this file, but it is not alive.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch (error) {
    if (['ESRCH', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}
