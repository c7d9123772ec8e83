import type { Command } from 'commander';
import { sanitize } from '../present/cells/cell-text.ts';
import { completeLine, type Names } from './complete-line.ts';
import type { Surroundings } from './context.ts';

/** Answers a shell's completion script with candidates for the last of `words`, one per line. */
export async function complete(
  program: Command,
  words: readonly string[],
  { environment, stdout }: Surroundings,
): Promise<void> {
  // Most lines need no runner, so gRPC is loaded only if a name is needed.
  const names: Names = async (kind, kernel) =>
    (await import('./known-names.ts')).knownNames(environment, runnerOf(words))(kind, kernel);
  const found = await completeLine(program, words, names);
  stdout.write(found.map(({ word, about }) => `${sanitize(word)}${about ? `\t${sanitize(about)}` : ''}\n`).join(''));
}

/** The value of --runner in the line. */
function runnerOf(words: readonly string[]): string | undefined {
  const at = words.slice(0, -1).findIndex((word) => word === '--runner' || word.startsWith('--runner='));
  if (at < 0) return undefined;
  const inline = words[at]!.slice('--runner='.length);
  return words[at] === '--runner' ? words.slice(at + 1, -1).find((word) => word !== '=') : inline;
}
