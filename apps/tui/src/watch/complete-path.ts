/** Completes paths of folders on this machine, as a shell does. */
import { readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';

/** Expands ~ as a shell does; text typed into a prompt does not pass through a shell. */
export const expandHome = (text: string): string => text.replace(/^~(?=\/|$)/, homedir());

interface Completion {
  /** The typed text, extended by the common start of all matching folders. */
  readonly text: string;
  /** Names of the matching folders, if there are several. */
  readonly names: readonly string[];
}

const MOST_NAMES = 200;

/** Completes the last part of a path to a folder. Hidden folders match only if a dot was typed. */
export function completeFolder(text: string): Completion {
  const cut = text.lastIndexOf('/') + 1;
  const [parent, begun] = [text.slice(0, cut), text.slice(cut)];
  const names = foldersIn(path.resolve(expandHome(parent === '' ? '.' : parent)))
    .filter((name) => name.startsWith(begun) && (begun.startsWith('.') || !name.startsWith('.')))
    .slice(0, MOST_NAMES);
  const [only, ...others] = names;
  if (only === undefined) return { text, names: [] };
  if (others.length === 0) return { text: `${parent}${only}/`, names: [] };
  return { text: parent + commonBeginning(names), names };
}

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name)
      .sort();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // The path does not exist yet, or this user may not read it, so nothing can be completed.
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'EACCES') return [];
    throw error;
  }
}

function commonBeginning([first = '', ...others]: readonly string[]): string {
  let end = first.length;
  for (const other of others) while (!other.startsWith(first.slice(0, end))) end -= 1;
  return first.slice(0, end);
}
