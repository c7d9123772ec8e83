import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { gitState } from './git-state.ts';

let root = '';
beforeEach(() => (root = mkdtempSync(join(tmpdir(), 'fc-git-'))));
afterEach(() => rmSync(root, { recursive: true }));

const git = (...args: string[]) =>
  execFileSync('git', ['-C', root, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { encoding: 'utf8' }).trim();

test('a folder in a repository has a commit, a branch, a remote without its password, and a dirty flag', async () => {
  const folder = join(root, 'kernels', 'mine');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'kernel.yaml'), 'id: mine');
  git('init', '-q', '-b', 'work');
  expect(await gitState(folder)).toBeUndefined();
  git('add', '.');
  git('commit', '-q', '-m', 'first');
  git('remote', 'add', 'origin', 'https://ada:secret@example.com/kernels.git');
  const clean = {
    repository: 'https://example.com/kernels.git',
    commit: git('rev-parse', 'HEAD'),
    branch: 'work',
    dirty: false,
  };
  expect(await gitState(folder)).toMatchObject(clean);
  writeFileSync(join(root, 'elsewhere'), '');
  expect(await gitState(folder)).toMatchObject(clean);
  writeFileSync(join(folder, 'new.cu'), '');
  git('checkout', '-q', '--detach');
  expect(await gitState(folder)).toMatchObject({ ...clean, branch: '', dirty: true });
});

test('a folder outside any repository has no state', async () => {
  expect(await gitState(root)).toBeUndefined();
  expect(await gitState(join(root, 'none'))).toBeUndefined();
});

describe('an untrusted folder', () => {
  const folder = () => join(root, 'mine');
  const ran = () => existsSync(join(root, 'ran'));
  /** A tracked file with a new time, so git must read it again to see whether it changed. */
  const source = (at: string) => {
    writeFileSync(join(at, 'k.cu'), 'int x;\n');
    git('add', '-f', join(at, 'k.cu'));
    git('commit', '-q', '-m', 'first');
    utimesSync(join(at, 'k.cu'), 1, 1);
  };
  const touch = () => `touch ${join(root, 'ran')}`;

  beforeEach(() => {
    git('init', '-q');
    mkdirSync(folder());
  });

  test.each(['filter.evil.clean', 'filter.evil.process', 'filter.a=b.clean', 'core.fsmonitor'])(
    "does not run a program that the repository's setting %s names",
    async (key) => {
      source(folder());
      git('config', key, `${touch()}; cat`);
      writeFileSync(join(root, '.git/info/attributes'), `*.cu filter=${key.split('.')[1]}\n`);
      expect([await gitState(folder()), ran()]).toMatchObject([{ dirty: false }, false]);
      // Plain git does run the program.
      git('status');
      expect(ran()).toBe(true);
    },
  );

  test('has no state if it is itself a repository, as a clone may contain one among its files', async () => {
    rmSync(join(root, '.git'), { recursive: true });
    const inner = (...args: string[]) => git('-C', folder(), ...args);
    writeFileSync(join(folder(), 'k.cu'), 'int x;\n');
    inner('init', '-q');
    inner('add', '.');
    inner('commit', '-q', '-m', 'first');
    cpSync(join(folder(), '.git'), folder(), { recursive: true });
    rmSync(join(folder(), '.git'), { recursive: true });
    utimesSync(join(folder(), 'k.cu'), 1, 1);
    writeFileSync(
      join(folder(), 'config'),
      `[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\n[filter "evil"]\nclean = "${touch()}; cat"\n`,
    );
    writeFileSync(join(folder(), '.gitattributes'), '*.cu filter=evil\n');
    expect([await gitState(folder()), ran()]).toEqual([undefined, false]);
  });

  test('fetches nothing if the configuration names a program that fetches missing objects', async () => {
    source(folder());
    git('config', 'extensions.partialClone', 'origin');
    git('config', 'core.repositoryFormatVersion', '1');
    git('config', 'remote.origin.url', `ext::sh -c ${touch().replace(' ', '% ')}`);
    git('config', 'protocol.ext.allow', 'always');
    rmSync(join(root, '.git/objects'), { recursive: true });
    mkdirSync(join(root, '.git/objects'));
    expect([await gitState(folder()), ran()]).toMatchObject([{ dirty: true }, false]);
  });
});
