import { chmodSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makePrivate, hidingFolder } from './private-data.ts';
import { temporaryFolder } from './testing/test-runner.ts';

const modes = (folder: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(folder).map((name) => [name, (statSync(join(folder, name)).mode & 0o777).toString(8)]),
  );

test("an existing folder keeps its mode and other files, and the runner's own files become private", () => {
  using folder = temporaryFolder();
  chmodSync(folder.path, 0o755);
  for (const name of ['flashcore.db', 'flashcore.db-wal', 'lock.db', 'tokens.json', 'notes.txt'])
    writeFileSync(join(folder.path, name), '', { mode: 0o644 });
  for (const name of ['artifacts', 'tls', 'photos']) mkdirSync(join(folder.path, name), { mode: 0o755 });
  symlinkSync('notes.txt', join(folder.path, 'runner.json'));
  makePrivate(folder.path);
  expect(modes(folder.path)).toEqual({
    'flashcore.db': '600',
    'flashcore.db-wal': '600',
    'lock.db': '600',
    'tokens.json': '600',
    artifacts: '700',
    tls: '700',
    photos: '755',
    'notes.txt': '644',
    'runner.json': '644',
  });
  expect(statSync(folder.path).mode & 0o777).toBe(0o755);
});

test('a folder that cannot be created is reported with what to do', () => {
  expect(() => makePrivate('/proc/flashcore/data')).toThrow(
    /^\/proc\/flashcore\/data: .*; give --data \(or \$FLASHCORE_HOME\) a folder that this user can write to$/,
  );
});

test("hidingFolder() removes the folder's path and real path, and nothing that only resembles them", () => {
  using folder = temporaryFolder();
  const [real, link] = [join(folder.path, 'real'), join(folder.path, 'link')];
  mkdirSync(real);
  symlinkSync(real, link);
  const hide = hidingFolder(link);
  expect(hide(`${real}/a.cu:1 ${link}/b, "${link}". \x1b[2J${real}`)).toBe(
    '<data folder>/a.cu:1 <data folder>/b, "<data folder>". <data folder>',
  );
  expect(hide(`${link}-2 /x${link} ${folder.path}`)).toBe(`${link}-2 /x${link} ${folder.path}`);
});
