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
