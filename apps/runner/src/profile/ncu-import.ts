import { execFile, type ExecFileException } from 'node:child_process';
import { toolEnvironment } from './tool-environment.ts';

const MAX_CSV_BYTES = 64 * 1024 * 1024;
const IMPORT_LIMIT_MS = 60_000;
const MAX_WORDS = 300;

/**
 * What ncu prints of a stored report, or why it can't: the report of a launch that was cut short, a full disk, more
 * than it prints in a minute. Not by runProgram, which bounds and cleans lines: this is a file of up to 64 MiB, byte
 * for byte. Errors: the signal's reason.
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
        env: toolEnvironment(),
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
