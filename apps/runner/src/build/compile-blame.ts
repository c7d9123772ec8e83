/** Decides whether the sources or the host made a compiler fail, from its messages and the host's state. */
import { FlashcoreError } from '@flashcore/shared/contract';
import { KILLED, type StagesEnd } from './compile-stages.ts';
import { isPlaced, isPlacedError } from './diagnostics.ts';

// The first alternative is g++'s message about a killed subprocess; the second is nvcc's message, also about its linker
// and assembler.
const KILLED_PART = /(?:^|: )(?:fatal error: )?Killed signal terminated program \w+|died due to signal 9\b/;
const NO_SPACE = /: (?:No space left on device|Disk quota exceeded)\b/;
/** g++ prints this with the source location that it had reached. No quoted source line can begin like this. */
const NOT_WRITTEN =
  /^[^:]+:\d+(?::\d+)?: fatal error: error writing to \S+: (?:No space left on device|Disk quota exceeded)$/;
/** Messages that no source can cause. */
const HOST_TROUBLE =
  /: (?:Input\/output error|Read-only file system|Stale file handle|Resource temporarily unavailable|Too many open files(?: in system)?|Text file busy|(?:v?fork|posix_spawnp?): Cannot allocate memory)\.?$/;
/**
 * With less free space than this, a part of the compiler probably could not write its output, whatever its message
 * says.
 */
const LEAST_FREE_BYTES = 64 * 1024 ** 2;
/** If a compiler was killed before this share of its time limit had passed, the host killed it. */
const OWN_LIMIT_PART = 0.8;
/**
 * Errors about an entry, without a source location. ptxas's fatal errors (memory, files) are excluded, because the host
 * may have caused them.
 */
const PTXAS_ERROR = /^ptxas error {0,8}:/;
/** Lines with statistics, whose times differ between runs. */
const PTXAS_INFO = /^ptxas info {0,8}:|^ {4}\d+ bytes stack frame/;
/** Temporary files, whose names differ between runs. */
const TEMPORARY = /\/tmp\/[\w.-]+/g;

export type HostFault = 'no-space' | 'killed' | 'box' | 'trouble' | 'unknown';

/**
 * The host's fault in a failed compilation; undefined if the sources made it fail or it reached its time limit;
 * 'unknown' if the cause is unclear.
 */
export function hostFault(end: StagesEnd, limitMs: number): HostFault | undefined {
  const { exitCode, timedOut, seconds, lines, leastFreeBytes, boxBroke } = end;
  if (exitCode === 0 || timedOut) return undefined;
  // Checked before boxBroke, because on a full disk the sandbox can't write its report either.
  if (leastFreeBytes < LEAST_FREE_BYTES) return 'no-space';
  if (boxBroke) return 'box';
  const own = lines.filter(isOwnWord);
  if (own.some((line) => NO_SPACE.test(line)) || lines.some((line) => NOT_WRITTEN.test(line))) return 'no-space';
  const killed = exitCode === KILLED || own.some((line) => KILLED_PART.test(line));
  if (killed) return seconds * 1000 < OWN_LIMIT_PART * limitMs ? 'killed' : undefined;
  if (own.some((line) => HOST_TROUBLE.test(line))) return 'trouble';
  return lines.some((line) => isPlacedError(line) || PTXAS_ERROR.test(line)) ? undefined : 'unknown';
}

/**
 * Whether a line is a message of the compiler about itself: it has no source location and does not quote a source line.
 */
const isOwnWord = (line: string): boolean => /^\S/.test(line) && !isPlaced(line);

/**
 * The host's fault after two runs. If a failure with unknown cause has the same output twice, the sources caused it.
 */
export function faultOfTwo(first: StagesEnd, second: StagesEnd, limitMs: number): HostFault | undefined {
  const fault = hostFault(second, limitMs);
  return fault === 'unknown' && said(first) === said(second) ? undefined : fault;
}

const said = ({ exitCode, lines }: StagesEnd): string =>
  `${exitCode}\n${lines
    .filter((line) => !PTXAS_INFO.test(line))
    .join('\n')
    .replace(TEMPORARY, '/tmp/…')}`;

export function hostError(fault: HostFault): FlashcoreError {
  switch (fault) {
    case 'no-space':
      return new FlashcoreError(
        'DISK_FULL',
        {},
        "The compiler found no space left, twice: free some on the disk of the runner's data directory and try again",
      );
    case 'killed':
      return new FlashcoreError(
        'INTERNAL',
        { cause: 'compiler killed' },
        "The compiler was killed (signal 9), twice: look at the host's memory and try again",
      );
    case 'box':
      return new FlashcoreError(
        'INTERNAL',
        { cause: 'box broke' },
        'The box of the compiler broke, twice: run fa-tui host, which says whether bubblewrap works, and try again',
      );
    case 'trouble':
      return new FlashcoreError(
        'INTERNAL',
        { cause: 'host trouble' },
        "The host prevented the compiler from working, twice: read the compiler's messages in the job's log, check the host's disk, processes and open files, and try again",
      );
    case 'unknown':
      return new FlashcoreError(
        'INTERNAL',
        { cause: 'compiler failed differently' },
        'The compiler failed twice, in different ways, and named no place in the sources: whether the kernel or the host is at fault is not known; try again',
      );
  }
}
