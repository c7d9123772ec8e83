import { execFile, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

export interface ToolRun {
  exitCode: number | undefined;
  /** What it and the profiled program said. */
  lines: string[];
}

const MAX_LINES = 2_000;
const MAX_CSV_BYTES = 64 * 1024 * 1024;
const IMPORT_LIMIT_MS = 60_000;

/** What the tools, the driver and Node need of the environment. */
function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR|LD_LIBRARY_PATH|CUDA_.*|NVIDIA_.*)$/.test(name)));
}

/** Runs a tool around a program, in a process group of its own: past its limit, or when the signal aborts, both are killed. Errors: the signal's reason. */
export async function runTool(tool: string, args: readonly string[], options: { limitMs: number; signal: AbortSignal; onLine: (line: string) => void }): Promise<ToolRun> {
  const { limitMs, signal, onLine } = options;
  signal.throwIfAborted();
  const child = spawn(tool, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe'], env: environment() });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface(stream).on('line', (line) => {
      if (lines.length < MAX_LINES) lines.push(line);
      onLine(line);
    });
  }
  const kill = (): void => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) process.kill(-child.pid, 'SIGKILL');
  };
  const timer = setTimeout(kill, limitMs);
  signal.addEventListener('abort', kill);
  try {
    const exitCode = await new Promise<number | undefined>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => resolve(code ?? undefined));
    });
    signal.throwIfAborted();
    return { exitCode, lines };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', kill);
  }
}

/** What ncu prints of a stored report. Errors: where it can't read it; the signal's reason. */
export function readNcuReport(ncu: string, args: readonly string[], signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(ncu, args, { encoding: 'utf8', maxBuffer: MAX_CSV_BYTES, timeout: IMPORT_LIMIT_MS, killSignal: 'SIGKILL', signal, env: environment() }, (error, stdout) => {
      if (signal.aborted) reject(signal.reason as Error);
      else if (error) reject(new Error(`ncu could not read its report: ${error.message}`, { cause: error }));
      else resolve(stdout);
    });
  });
}
