/** The code that fa-tui reads at every start: the files that main.js imports before any command runs. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const DIST = path.join(import.meta.dirname, '../../apps/tui/dist');
/** The code had 153 kB on 2026-11-24. With zod and YAML in it, `fa-tui --version` took twice as long. */
const MOST_BYTES = 250_000;

function importedFiles(main: string): Map<string, number> {
  const sizes = new Map<string, number>();
  const visit = (file: string): void => {
    if (sizes.has(file)) return;
    const code = readFileSync(path.join(DIST, file), 'utf8');
    sizes.set(file, code.length);
    for (const [, imported] of code.matchAll(/(?:from|import) ?"\.\/([^"]+)"/g)) visit(imported!);
  };
  visit(main);
  return sizes;
}

test('every start of fa-tui reads little code: modules that only some commands need are imported on demand', () => {
  const sizes = importedFiles('main.js');
  expect(sizes.size).toBeGreaterThan(1);
  const total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  expect(total, JSON.stringify(Object.fromEntries(sizes))).toBeLessThan(MOST_BYTES);
});
