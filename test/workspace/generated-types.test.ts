/** The proto files follow buf's rules, and the committed types are generated from them. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ALL_TESTS, temporaryFolder } from '@flashcore/shared/testing';
import { afterAll, expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
// A temporary folder, because a cache in the user's home would stay there.
const cache = mkdtempSync(join(tmpdir(), 'flashcore-buf-'));
afterAll(() => rmSync(cache, { recursive: true }));
const buf = (...args: string[]) =>
  execFileSync(join(ROOT, 'node_modules/.bin/buf'), args, {
    cwd: ROOT,
    env: { ...process.env, BUF_CACHE_DIR: cache },
    encoding: 'utf8',
  });

// `npm run lint` does this, too.
if (ALL_TESTS)
  test('buf lint (STANDARD, COMMENTS) finds nothing', () => {
    expect(buf('lint')).toBe('');
  });

test('libs/shared/src/generated is what `npm run proto` makes', () => {
  using folder = temporaryFolder();
  buf('generate', '-o', folder.path);
  expect(contents(join(ROOT, 'libs/shared/src/generated'))).toEqual(
    contents(join(folder.path, 'libs/shared/src/generated')),
  );
});

function contents(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map(
      ({ parentPath, name }) =>
        [join(parentPath, name).slice(folder.length), readFileSync(join(parentPath, name), 'utf8')] as const,
    ),
  );
}
