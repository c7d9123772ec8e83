/**
 * The built fa-tui in a real pseudo-terminal against a real gRPC server that floods it, with a probe inside: what
 * budgets are measured on.
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
  /** From the command to the first whole frame, milliseconds. */
  readonly firstFrameMs: number;
  /** What of it the program computed: a busy machine makes it wait, not compute. Linux tells. */
  readonly firstFrameCpuMs: number;
  readonly server: FloodServer;
  readonly pty: IPty;
  /** Characters written to the terminal so far. */
  readonly written: number;
  /** What the probe finds from now to the end of `meanwhile`. */
  measure(meanwhile: () => Promise<void>): Promise<ProbeReport>;
  /** Presses `key`; milliseconds until the terminal was sent `pattern`. */
  press(key: string, pattern: RegExp): Promise<number>;
  /** Leaves as users do, with what that keeps for the next start. */
  leave(): Promise<void>;
  close(): void;
}

export interface BudgetOptions {
  readonly prelude?: readonly JobEvent[];
  /** Whether the probe watches the event loop, which costs some of the processor itself. */
  readonly watchesLoop?: boolean;
  /** False: the program as users start it. Then nothing can be measured in it. */
  readonly probed?: boolean;
  /** The folder of Node's compile cache. Without one, the program uses the cache that all tests share. */
  readonly compileCache?: string;
  /** Hears every chunk that the program writes. */
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
    // CI off: where it is set Ink takes the terminal for a build log and draws one frame, at the end.
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

/** User and system time of a process so far; /proc counts it in hundredths of a second. */
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
  // eslint-disable-next-line flashcore/no-fixed-wait -- for what is measured over time
  new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The value that a share of the numbers does not exceed. */
export const quantile = (numbers: readonly number[], share: number): number =>
  numbers.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(numbers.length * share) - 1)] ?? Number.NaN;
