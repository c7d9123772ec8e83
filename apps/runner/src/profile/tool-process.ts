import { execFile, type ExecFileException } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Child } from '../sandbox/child.ts';

export interface ToolRun {
  exitCode: number | undefined;
  /** What it and the profiled program said. */
  lines: string[];
}

const MAX_LINES = 2_000;
const MAX_CSV_BYTES = 64 * 1024 * 1024;
const IMPORT_LIMIT_MS = 60_000;
const MAX_WORDS = 300;

/** What the tools, the driver and Node need of the environment. */
function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR|LD_LIBRARY_PATH|CUDA_.*|NVIDIA_.*)$/.test(name)),
  );
}

/** What a killed tool's children, out of its group, may hold its output for. */
const AFTER_KILL_MS = 1_000;

/**
 * Runs a tool around a program, in a process group of its own: past its limit, when the signal aborts, and when the
 * runner dies, both are killed, for a kernel that
 * nobody waits for would run beside the next one's benchmark. Errors: the signal's reason; the system's where no
 * process can be started.
 */
export async function runTool(
  tool: string,
  args: readonly string[],
  options: { limitMs: number; signal: AbortSignal; onLine: (line: string) => void },
): Promise<ToolRun> {
  const { limitMs, signal, onLine } = options;
  signal.throwIfAborted();
  const child = new Child(tool, args, { ownGroup: true, stdio: ['ignore', 'pipe', 'pipe'], env: environment() });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface(stream).on('line', (line) => {
      if (lines.length < MAX_LINES) lines.push(line);
      onLine(line);
    });
  }
  const killed = Promise.withResolvers<void>();
  const kill = (): void => {
    child.kill();
    killed.resolve();
  };
  const timer = setTimeout(kill, limitMs);
  signal.addEventListener('abort', kill);
  try {
    const { exitCode, startError } = await Promise.race([
      child.closed,
      killed.promise.then(() => child.ended(AFTER_KILL_MS)),
    ]);
    signal.throwIfAborted();
    if (startError) throw startError;
    return { exitCode: exitCode ?? undefined, lines };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', kill);
  }
}

/**
 * What ncu prints of a stored report, or why it can't: the report of a launch that was cut short, a full disk, more
 * than it prints in a minute. Errors: the signal's reason.
 */
export function readNcuReport(
  ncu: string,
  args: readonly string[],
  signal: AbortSignal,
): Promise<{ csv: string } | { missing: string }> {
  return new Promise((resolve, reject) => {
    execFile(
      ncu,
      args,
      {
        encoding: 'utf8',
        maxBuffer: MAX_CSV_BYTES,
        timeout: IMPORT_LIMIT_MS,
        killSignal: 'SIGKILL',
        signal,
        env: environment(),
      },
      (error, stdout, stderr) => {
        if (signal.aborted) reject(signal.reason as Error);
        else if (error)
          resolve({ missing: `ncu could not read its report: ${importFailure(error, stderr || stdout)}` });
        else resolve({ csv: stdout });
      },
    );
  });
}

function importFailure(error: ExecFileException, said: string): string {
  if (error.killed && error.code !== 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER')
    return `killed after ${IMPORT_LIMIT_MS / 1000} s`;
  const words = said.split('\n').findLast((line) => line.trim() !== '');
  return typeof error.code === 'number' && words
    ? `exit status ${error.code}, ${words.trim().slice(0, MAX_WORDS)}`
    : error.message.split('\n')[0]!;
}
