/** A line of text that is being typed. Every prompt, filter and field edits its text here, with the keys of a shell. */

export interface InputLine {
  readonly text: string;
  /** Length of the text after the cursor, so that a text set from outside has its cursor at the end. Default: 0. */
  readonly after?: number;
}

/** The text before the cursor and the text after it. */
export function partsOf({ text, after = 0 }: InputLine): [before: string, behind: string] {
  const at = Math.max(0, text.length - after);
  return [text.slice(0, at), text.slice(at)];
}

/** The character that a key types; undefined for keys that type nothing. */
export function typedCharacter(key: string): string | undefined {
  if (key === 'space') return ' ';
  return Array.from(key).length === 1 ? key : undefined;
}

/**
 * The line after a key, named as in key-name.ts; the same object if the key does nothing to a line. Ctrl-U clears all
 * of it, Ctrl-W deletes back to a space and Alt-Backspace to the start of a word, as in bash.
 */
export function editedLine(line: InputLine, key: string): InputLine {
  const [before, behind] = partsOf(line);
  const joined = (left: string, right: string): InputLine => ({ text: left + right, after: right.length });
  const last = lastCharacter(before);
  const next = firstCharacter(behind);
  switch (key) {
    case 'left':
    case 'ctrl+b':
      return joined(before.slice(0, before.length - last.length), last + behind);
    case 'right':
    case 'ctrl+f':
      return joined(before + next, behind.slice(next.length));
    case 'home':
    case 'ctrl+a':
      return joined('', line.text);
    case 'end':
    case 'ctrl+e':
      return joined(line.text, '');
    case 'backspace':
      return joined(before.slice(0, before.length - last.length), behind);
    case 'delete':
      return joined(before, behind.slice(next.length));
    case 'ctrl+w':
      return joined(before.replace(/\S*\s*$/, ''), behind);
    case 'alt+backspace':
      return joined(before.replace(/[\p{L}\p{N}]*[^\p{L}\p{N}]*$/u, ''), behind);
    case 'ctrl+u':
      return joined('', '');
    case 'ctrl+k':
      return joined(before, '');
  }
  const typed = typedCharacter(key);
  return typed === undefined ? line : joined(before + typed, behind);
}

const PLAIN = /^[\x20-\x7e]*$/;

// Created on first use, because Node then reads its language tables, which takes 9 ms of processor time.
let graphemes: Intl.Segmenter | undefined;

/** The characters that the user sees: an emoji or a letter with its accents is one. */
function charactersOf(text: string): string[] {
  if (PLAIN.test(text)) return Array.from(text);
  graphemes ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return Array.from(graphemes.segment(text), ({ segment }) => segment);
}

const firstCharacter = (text: string): string => charactersOf(text)[0] ?? '';
const lastCharacter = (text: string): string => charactersOf(text).at(-1) ?? '';
