import { readProgram, type ProgramOutput } from '../sandbox/run.ts';
import { toolEnvironment } from './tool-environment.ts';

export const MAX_CSV_BYTES = 64 * 1024 * 1024;
const IMPORT_LIMIT_MS = 60_000;
const MAX_WORDS = 300;

/**
 * ncu's output for a stored report, or why there is none: the report of an interrupted launch, a full disk, or more
 * than it prints in a minute. Errors: the signal's reason.
 */
export async function readNcuReport(
  ncu: string,
  args: readonly string[],
  signal: AbortSignal,
): Promise<{ csv: string } | { missing: string }> {
  const end = await readProgram(ncu, args, {
    limitMs: IMPORT_LIMIT_MS,
    maxBytes: MAX_CSV_BYTES,
    signal,
    environment: toolEnvironment(),
  });
  const { exitCode, output } = end;
  if (exitCode === 0 && output !== undefined) return { csv: output };
  return { missing: `ncu could not read its report: ${importFailure(end)}` };
}

function importFailure({ exitCode, signalName, timedOut, output, lines }: ProgramOutput): string {
  if (timedOut) return `killed after ${IMPORT_LIMIT_MS / 1000} s`;
  if (output === undefined) return `it is longer than ${MAX_CSV_BYTES / 1024 ** 2} MiB`;
  if (signalName !== undefined) return `ended by ${signalName}`;
  const words = (lines.length > 0 ? lines : output.split('\n')).findLast((line) => line.trim() !== '');
  const status = `exit status ${exitCode}`;
  return words === undefined ? status : `${status}, ${words.trim().slice(0, MAX_WORDS)}`;
}
