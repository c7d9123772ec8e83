import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { gitState } from './git-state.ts';

let root = '';
beforeEach(() => (root = mkdtempSync(join(tmpdir(), 'fc-git-'))));
afterEach(() => rmSync(root, { recursive: true }));

const git = (...args: string[]) =>
  execFileSync('git', ['-C', root, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { encoding: 'utf8' }).trim();

test('a folder in a repository: commit, branch, remote without its password, and whether the folder differs', async () => {
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

test('a folder in no repository has no state', async () => {
  expect(await gitState(root)).toBeUndefined();
  expect(await gitState(join(root, 'none'))).toBeUndefined();
});
