import { realpathSync } from 'node:fs';
import type { CleanText } from '@flashcore/shared/contract';
import { plainText } from '@flashcore/shared/text';

const SHOWN = '<data folder>';

/**
 * plainText() that also removes a folder's path, both as given and as the real path. Tools and the system name files,
 * and only the runner's user may know where its files are.
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
