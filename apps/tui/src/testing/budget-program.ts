/**
 * Runs the built fa-tui in a real pseudo-terminal, with a probe inside and a real gRPC server that floods it. Budgets
 * are measured on this program.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { spawn, type IPty } from '@lydell/node-pty';
import type { JobEvent } from '@flashcore/shared/contract';
import { waitFor } from '@flashcore/shared/testing';
import { floodServer, type FloodServer } from './flood-server.ts';
import type { ProbeReport } from './probe.ts';

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const PROBE = new URL('./probe.ts', import.meta.url).href;

export const SIZE = { columns: 120, rows: 40 };

export interface BudgetProgram {
  /** Time from the command to the first whole frame, in milliseconds. */
  readonly firstFrameMs: number;
  /**
   * The program's own processor time until the first frame. Unlike wall time, it does not include waiting on a busy
   * machine. Only available on Linux.
   */
  readonly firstFrameCpuMs: number;
  readonly server: FloodServer;
  readonly pty: IPty;
  /** Number of characters written to the terminal so far. */
  readonly written: number;
  /** Measures with the probe from now until `meanwhile` ends. */
  measure(meanwhile: () => Promise<void>): Promise<ProbeReport>;
  /** Presses `key`. Returns the milliseconds until `pattern` was written to the terminal. */
  press(key: string, pattern: RegExp): Promise<number>;
  /** Leaves as a user does, so that the state for the next start is stored. */
  leave(): Promise<void>;
  close(): void;
}

export interface BudgetOptions {
  readonly prelude?: readonly JobEvent[];
  /** True if the probe should watch the event loop, which uses some processor time itself. */
  readonly watchesLoop?: boolean;
  /** False to run the program without a probe, as users do. Then nothing can be measured inside. */
  readonly probed?: boolean;
  /** The folder of Node's compile cache; by default the cache that all tests share. */
  readonly compileCache?: string;
  /** Receives every chunk that the program writes. */
  readonly onData?: (data: string) => void;
}

/** Resolves once the program shows the job. */
export async function openBudgetProgram({
  prelude,
  onData,
  watchesLoop = true,
  probed = true,
  compileCache,
}: BudgetOptions = {}): Promise<BudgetProgram> {
  const server = await floodServer(prelude === undefined ? {} : { prelude });
  const folder = mkdtempSync(path.join(tmpdir(), 'fa-budget-'));
  const file = path.join(folder, 'probe.json');
  const startedAt = performance.now();
  const pty = spawn(process.execPath, [...(probed ? ['--import', PROBE] : []), MAIN, '--runner', server.address], {
    // Unsets CI: if it is set, Ink treats the terminal as a build log and draws only one frame, at the end.
    name: 'xterm-256color',
    cols: SIZE.columns,
    rows: SIZE.rows,
    env: {
      ...process.env,
      FLASHCORE_HOME: folder,
      XDG_CONFIG_HOME: folder,
      XDG_STATE_HOME: folder,
      PROBE_FILE: file,
      PROBE_LOOP: watchesLoop ? '1' : '0',
      COLORTERM: 'truecolor',
      CI: 'false',
      ...(compileCache === undefined ? {} : { NODE_COMPILE_CACHE: compileCache }),
    },
  });
  let written = 0;
  let heard: (data: string) => void = () => undefined;
  pty.onData((data) => {
    written += data.length;
    onData?.(data);
    heard(data);
  });
  const shown = (pattern: RegExp, timeoutMs = 20_000): Promise<void> =>
    new Promise((resolve, reject) => {
      let text = '';
      // eslint-disable-next-line flashcore/no-fixed-wait -- a limit
      const timer = setTimeout(
        () => reject(new Error(`Waited ${timeoutMs} ms for ${pattern}; the terminal was sent:\n${text.slice(-2_000)}`)),
        timeoutMs,
      );
      heard = (data) => {
        text += data;
        if (!pattern.test(text)) return;
        clearTimeout(timer);
        heard = () => undefined;
        resolve();
      };
    });
  await shown(/8 Host/);
  const firstFrameMs = performance.now() - startedAt;
  const firstFrameCpuMs = cpuMsOf(pty.pid);
  await shown(/flashcore_v6/);
  return {
    firstFrameMs,
    firstFrameCpuMs,
    server,
    pty,
    get written() {
      return written;
    },
    measure: async (meanwhile) => {
      pty.kill('SIGUSR2');
      await meanwhile();
      pty.kill('SIGUSR2');
      return await readReport(file);
    },
    press: async (key, pattern) => {
      const pressedAt = performance.now();
      const seen = shown(pattern);
      pty.write(key);
      await seen;
      return performance.now() - pressedAt;
    },
    leave: () =>
      new Promise((resolve) => {
        pty.onExit(() => resolve());
        pty.write('q');
      }),
    close: () => {
      pty.kill('SIGKILL');
      server.stop();
      rmSync(folder, { recursive: true });
    },
  };
}

/** User and system time of a process so far, in milliseconds. /proc counts it in hundredths of a second. */
function cpuMsOf(processId: number): number {
  const [, rest = ''] = readFileSync(`/proc/${processId}/stat`, 'utf8').split(') ');
  const fields = rest.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

async function readReport(file: string): Promise<ProbeReport> {
  const whole = (): string | undefined => {
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
    return text.endsWith('\n') ? text : undefined;
  };
  const report = JSON.parse(await waitFor('the report of the probe', whole, 10_000)) as ProbeReport;
  rmSync(file);
  return report;
}

export const sleep = (milliseconds: number): Promise<void> =>
  // eslint-disable-next-line flashcore/no-fixed-wait -- the time over which figures are measured
  new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The quantile: the value that this share of the numbers does not exceed. */
export const quantile = (numbers: readonly number[], share: number): number =>
  numbers.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(numbers.length * share) - 1)] ?? Number.NaN;
