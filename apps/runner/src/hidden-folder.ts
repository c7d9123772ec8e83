import { realpathSync } from 'node:fs';
import type { CleanText } from '@flashcore/shared/contract';
import { plainText } from '@flashcore/shared/text';

const SHOWN = '<data folder>';

/**
 * plainText() that also takes a folder's path out, by the name it was given and by its real one: tools and the system
 * name files, and where the runner keeps its own is nobody's business but its user's.
 */
export function hidingFolder(folder: string): CleanText {
  const names = [...new Set([folder, realpathSync(folder)])].toSorted((a, b) => b.length - a.length);
  const found = new RegExp(
    `(?<![\\w./-])(?:${names.map((name) => name.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`)).join('|')})(?![\\w-])`,
    'g',
  );
  return (text) => {
    const plain = plainText(text);
    return names.some((name) => plain.includes(name)) ? plain.replace(found, SHOWN) : plain;
  };
}
