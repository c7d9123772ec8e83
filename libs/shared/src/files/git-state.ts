/** Which commit a folder was taken from, where it lies in a git repository. */
import { execFile } from 'node:child_process';
import { basename } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { type GitState, GitStateSchema } from '../generated/flashcore/runner/v1/kernel_pb.js';
import { plainLine } from '../text/plain-text.ts';

const LIMIT_MS = 3_000;
const MAX_BYTES = 256 * 1024;
const MAX_LENGTH = 256;

/** Undefined where the folder lies in no repository, the repository has no commit, or there is no git. */
export async function gitState(folder: string): Promise<GitState | undefined> {
  const [commit, root] = await Promise.all([
    git(folder, ['rev-parse', '--verify', 'HEAD']),
    git(folder, ['rev-parse', '--show-toplevel']),
  ]);
  if (commit === undefined || root === undefined || !/^[0-9a-f]{40,64}$/.test(commit)) return undefined;
  const [remote, branch, changes] = await Promise.all([
    git(folder, ['config', '--get', 'remote.origin.url']),
    git(folder, ['symbolic-ref', '--short', '-q', 'HEAD']),
    git(folder, ['status', '--porcelain', '--untracked-files=normal', '--', '.']),
  ]);
  return create(GitStateSchema, {
    repository: bounded(remote ? withoutCredentials(remote) : basename(root)),
    commit,
    branch: bounded(branch ?? ''),
    // A status that can't be read is no proof that nothing changed.
    dirty: changes !== '',
  });
}

/** User and password of a URL are nobody's business; "git@host:path" has none. */
function withoutCredentials(remote: string): string {
  return remote.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@]*@/i, '$1');
}

const bounded = (text: string): string => plainLine(text).slice(0, MAX_LENGTH);

/** What git prints; undefined where it fails, is not there, or takes too long. */
function git(folder: string, args: string[]): Promise<string | undefined> {
  // A repository's own configuration may name programs to run: none is, and nothing is written.
  const safe = ['-c', 'core.fsmonitor=false', '-c', 'core.hooksPath=/dev/null', '--no-optional-locks'];
  return new Promise((resolve) => {
    execFile(
      'git',
      [...safe, '-C', folder, ...args],
      { timeout: LIMIT_MS, maxBuffer: MAX_BYTES, windowsHide: true },
      (error, stdout) => resolve(error ? undefined : stdout.trim()),
    );
  });
}
