import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');

/** The cells of the table below a heading of a page, row by row. */
function rows(page: string, heading: string): string[][] {
  const text = readFileSync(join(ROOT, page), 'utf8');
  const section = text.slice(text.indexOf(heading)).split('\n## ', 2)[0]!;
  return section
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .slice(2)
    .map((line) => line.split(' | ').map((cell) => cell.replace(/^\||\|$/g, '').trim()));
}

const testsIn = (cell: string): string[] =>
  [...cell.matchAll(/\]\(([^)]+\.test\.ts)\)/g)].map(([, path]) => path!.replace(/^\.\.\//, ''));

test.each([
  ['SECURITY.md', '## What is defended'],
  ['docs/threats.md', '## The boundaries'],
])('each line of %s names tests that attack the defense, and these tests exist', (page, heading) => {
  const lines = rows(page, heading);
  expect(lines.length).toBeGreaterThan(5);
  for (const line of lines) {
    const tests = testsIn(line.at(-1)!);
    expect(tests, line[0]).not.toEqual([]);
    expect(tests.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  }
});
