/** Shell scripts for the host, in POSIX sh for any login shell. */

/** Bundles on the host: `bundles/<digest>/`, and a link `current`. */
export const BUNDLES = '${FLASHCORE_HOME:-$HOME/.flashcore}/bundles';

/** A script as a single command line. It must not contain single quotes. */
export function asCommand(script: string): string {
  if (script.includes("'")) throw new Error('a script for the host must do without single quotes');
  return `exec sh -c '${script}'`;
}

/** A command line for a program of the installed bundle. Words that need quoting are refused. */
export function bundled(program: 'fa-tui' | 'flashcore-runner', ...words: string[]): string {
  const strange = words.find((word) => !/^[\w./:@+-]+$/.test(word));
  if (strange !== undefined) throw new Error(`a word for the host needs quoting: ${strange}`);
  return asCommand(
    `p="${BUNDLES}/current/${program}"; [ -x "$p" ] || { echo "${program} is not installed there" >&2; exit 127; }; exec "$p" ${words.join(' ')}`,
  );
}

/** Commands that this program starts by itself, on the host and here. They are not in the help. */

/** On the host: connects stdin and stdout to the runner there. */
export const DIAL = '__dial';

/** Here: watches a host for idleness and stops it. */
export const IDLE = '__idle';
