import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';

/**
 * Returns a function that creates folders with files by path. Values other than texts are written as JSON. The folders
 * are removed after the tests of the file that calls this.
 */
export function testFolders(): (files: Readonly<Record<string, unknown>>) => string {
  const home = mkdtempSync(path.join(tmpdir(), 'fa-'));
  afterAll(() => rmSync(home, { recursive: true }));
  return (files) => {
    const folder = mkdtempSync(path.join(home, 'of-'));
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
      writeFileSync(path.join(folder, name), typeof content === 'string' ? content : JSON.stringify(content, null, 2));
    }
    return folder;
  };
}

/** A generator of numbers below `count`. Every run gives the same numbers, so that a failure can be repeated. */
export function numbers(seed: number): (count: number) => number {
  let state = seed;
  return (count) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return Math.floor((state / 0x80000000) * count);
  };
}

const PIECES = [
  ...'{}[]",:\\\n-#\u0000',
  ...['1e999', 'null', '&a ', '*a', '!!js/function', '!!python/name:os.system ', '__proto__', '../', '\u001b['],
  ...["'''", '"""', "import os; os.system('touch pwned')"],
];

/** A text with one to four changes: a piece added, removed or doubled, or a number or letter changed. */
export function mutated(text: string, below: (count: number) => number): string {
  let changed = text;
  for (let left = 1 + below(4); left > 0; left -= 1) {
    const at = below(changed.length);
    const end = at + below(Math.min(60, changed.length - at));
    const [before, part, after] = [changed.slice(0, at), changed.slice(at, end), changed.slice(end)];
    changed = [
      () => before + PIECES[below(PIECES.length)]! + part + after,
      () => before + after,
      () => before + part + part + after,
      () => before + part.replace(/\d+/, String(below(2) ? -below(9) : below(2 ** 31))) + after,
      () => before + part.replace(/[a-z]/, String.fromCodePoint(32 + below(90))) + after,
    ][below(5)]!();
  }
  return changed;
}
