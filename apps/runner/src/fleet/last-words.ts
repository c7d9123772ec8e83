import { plainLine } from '@flashcore/shared/text';
import { readProgram } from '../sandbox/run.ts';

/** How a pilot's last words begin in its Slurm job's comment, which may also have a comment of the fleet file. */
export const LAST_WORDS = 'flashcore: ';
/** Words of a pilot that has not reached its gateway and still tries, with the exit code that it would end with. */
const TRYING = /^trying (\d+): (.*)$/;
const MOST_CHARACTERS = 400;
const LIMIT_MS = 5_000;

/**
 * Leaves the reason why a pilot ends in the comment of its Slurm job, where the gateway reads it: the pilot's log is on
 * the node. Does nothing outside Slurm. A node without scontrol, or a controller that does not answer, loses only the
 * words, so neither is an error.
 */
export async function leaveLastWords(words: string, environment: NodeJS.ProcessEnv): Promise<void> {
  const job = environment['SLURM_JOB_ID'];
  if (job === undefined) return;
  const comment = `${LAST_WORDS}${plainLine(words.replaceAll('\n', ' ')).slice(0, MOST_CHARACTERS)}`;
  await readProgram('scontrol', ['update', `JobId=${job}`, `Comment=${comment}`], {
    limitMs: LIMIT_MS,
    maxBytes: 1024 * 1024,
    signal: new AbortController().signal,
    environment: { ...environment, LC_ALL: 'C' },
  });
}

/** A pilot's words for a gateway that it has not reached yet. */
export const tryingWords = ({ exitCode, said }: { exitCode: number; said: string }): string =>
  `trying ${exitCode}: ${said}`;

/** Reads tryingWords() from the comment of a Slurm job; undefined if it has none. */
export function readTrying(comment: string): { exitCode: string; words: string } | undefined {
  const [, exitCode, words] = TRYING.exec(wordsIn(comment)) ?? [];
  return exitCode === undefined || words === undefined ? undefined : { exitCode, words };
}

/** Reads the reason that a pilot left in the comment of its Slurm job; undefined if it left none. */
export const readLastWords = (comment: string): string | undefined =>
  readTrying(comment)?.words ?? (wordsIn(comment) || undefined);

const wordsIn = (comment: string): string =>
  comment.startsWith(LAST_WORDS) ? comment.slice(LAST_WORDS.length).trim() : '';
