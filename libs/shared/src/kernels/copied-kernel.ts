/** Creates the user's own kernel as a copy of another one. A folder is given as the texts of its files by path. */
import { isMap, isNode, isScalar, parseDocument } from 'yaml';
import { FlashcoreError } from '../contract/errors.ts';
import { BROUGHT_PATHS, broughtFiles } from '../problems/installed-problems.ts';
import { entryOf } from '../text/entry-of.ts';
import { MANIFEST_FILE, parseManifest } from './manifest.ts';
import { NOTES_FILE } from './source-tree.ts';

const BEGUN = 'Begun as a copy of';
/** Keys that describe only the original: what it was copied from, the claims of its notes, and its deprecation. */
const NOT_ITS_OWN = ['after', 'expect', 'deprecated'];

/**
 * The files of a kernel under a new id, which replaces the old one in names and texts. `after` names the original, and
 * NOTES.md is a new one. Errors: INVALID_MANIFEST.
 */
export function copiedKernel(files: Readonly<Record<string, string>>, id: string): Record<string, string> {
  const brought = broughtFiles((path) => entryOf(files, path));
  const { id: original, problem } = parseManifest(files[MANIFEST_FILE] ?? '', MANIFEST_FILE, brought);
  const renamed = (text: string): string => text.replaceAll(new RegExp(`\\b${original}\\b`, 'g'), id);
  const copy = Object.fromEntries(
    Object.entries(files).map(([path, text]) =>
      BROUGHT_PATHS.includes(path) ? [path, text] : [renamed(path), realigned(text, renamed)],
    ),
  );
  copy[MANIFEST_FILE] = ownManifest(copy[MANIFEST_FILE]!, { original, problem: problem.id });
  copy[NOTES_FILE] = `# ${id}\n\n${BEGUN} ${original}.\n\n## What it changes, and why\n\n## What was measured\n`;
  parseManifest(copy[MANIFEST_FILE], MANIFEST_FILE, brought);
  return copy;
}

/** The renamed text. Lines that were aligned below an open parenthesis stay aligned with it. */
function realigned(text: string, renamed: (text: string) => string): string {
  let column = 0;
  let shift = 0;
  return text
    .split('\n')
    .map((line) => {
      const isBelow = column > 0 && line.startsWith(' '.repeat(column));
      if (!isBelow) {
        const open = lastOpen(line);
        column = open + 1;
        shift = renamed(line.slice(0, column)).length - column;
        return renamed(line);
      }
      return shift < 0 ? renamed(line).slice(-shift) : `${' '.repeat(shift)}${renamed(line)}`;
    })
    .join('\n');
}

/** Index of the line's last parenthesis that it does not close; -1 if there is none. */
function lastOpen(line: string): number {
  const open: number[] = [];
  for (const [index, character] of [...line].entries()) {
    if (character === '(') open.push(index);
    else if (character === ')') open.pop();
  }
  return open.at(-1) ?? -1;
}

/** Whether notes say anything: headings, comments and the line at the start of every copy are ignored. */
export const notesSaySomething = (notes: string): boolean =>
  notes
    .replaceAll(/<!--[^]*?(?:-->|$)/g, '')
    .split('\n')
    .some((line) => /[\p{L}\p{N}]/u.test(line) && !/^\s*#/.test(line) && !line.startsWith(BEGUN));

/** Limit of the notes that are handed in with an acceptance, judged by the runner, and stored. */
export const MAX_ACCEPTED_NOTES = 4096;

/** The part of NOTES.md that an acceptance is judged by. Control characters, which a runner refuses, are left out. */
export const acceptedNotes = (notes: string): string =>
  notes
    .replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '')
    .slice(0, MAX_ACCEPTED_NOTES)
    .toWellFormed();

/** Keeps all other lines unchanged; a comment above a key belongs to that key. */
function ownManifest(text: string, { original, problem }: { original: string; problem: string }): string {
  const { contents } = parseDocument(text);
  if (!isMap(contents) || contents.flow) throw notInLines();
  let end = 0;
  const kept = contents.items.flatMap(({ key, value }) => {
    if (!isScalar(key) || !isNode(value)) throw notInLines();
    const lines = text.slice(end, (end = value.range[2])).replace(/\n?$/, '\n');
    // A problem may have the same name as the original.
    if (key.value === 'problem') return [`problem: ${problem}\n`];
    if (key.value === 'lesson') return [lines, `after: ${original}\n`];
    return NOT_ITS_OWN.includes(String(key.value)) ? [] : [lines];
  });
  return kept.join('');
}

const notInLines = (): FlashcoreError =>
  new FlashcoreError(
    'INVALID_MANIFEST',
    { path: MANIFEST_FILE },
    `${MANIFEST_FILE}: must have each key at the beginning of a line, so that it can be copied: write it without outer braces`,
  );
