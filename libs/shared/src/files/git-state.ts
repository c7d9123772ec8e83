/** Determines which commit a folder in a git repository comes from. */
import { execFile } from 'node:child_process';
import { basename } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { type GitState, GitStateSchema } from '../generated/flashcore/runner/v1/kernel_pb.js';
import { plainLine } from '../text/plain-text.ts';
import { withoutSecrets } from './user-folders.ts';

const LIMIT_MS = 3_000;
const MAX_BYTES = 256 * 1024;
const MAX_LENGTH = 256;

/** Undefined if the folder is in no repository, the repository has no commit, or git is missing. */
export async function gitState(folder: string): Promise<GitState | undefined> {
  const [commit, root, filters] = await Promise.all([
    git(folder, ['rev-parse', '--verify', 'HEAD']),
    git(folder, ['rev-parse', '--show-toplevel']),
    ownFilters(folder),
  ]);
  if (commit === undefined || root === undefined || !/^[0-9a-f]{40,64}$/.test(commit)) return undefined;
  const [remote, branch, changes] = await Promise.all([
    git(folder, ['config', '--get', 'remote.origin.url']),
    git(folder, ['symbolic-ref', '--short', '-q', 'HEAD']),
    filters && git(folder, [...STATUS, '--', '.'], filters),
  ]);
  return create(GitStateSchema, {
    repository: bounded(remote ? withoutCredentials(remote) : basename(root)),
    commit,
    branch: bounded(branch ?? ''),
    // If the status cannot be read, something may have changed.
    dirty: changes !== '',
  });
}

/** Removes user and password from a URL; "git@host:path" has none. */
function withoutCredentials(remote: string): string {
  return remote.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@]*@/i, '$1');
}

const bounded = (text: string): string => plainLine(text).slice(0, MAX_LENGTH);

/** For a submodule only the commit is checked, because its work tree has its own configuration. */
const STATUS = ['status', '--porcelain', '--untracked-files=normal', '--ignore-submodules=dirty'];

/**
 * Environment that disables those settings of the repository that name programs for git to run on its files; undefined
 * if they cannot be read. The user's own settings (Git LFS) stay.
 */
async function ownFilters(folder: string): Promise<NodeJS.ProcessEnv | undefined> {
  const asked = ['config', '--null', '--show-scope', '--name-only', '--get-regexp', '^filter\\.'];
  const { text, code } = await runGit(folder, asked);
  if (code !== 0 && code !== NOTHING_FOUND) return undefined;
  const words = text.split('\0');
  const own = words.filter((_, index) => index % 2 === 1 && !USERS_SCOPES.includes(words[index - 1]!));
  const settings = own.flatMap((key, index) => [
    [`GIT_CONFIG_KEY_${index}`, key],
    [`GIT_CONFIG_VALUE_${index}`, key.endsWith('.required') ? 'false' : ''],
  ]);
  return { GIT_CONFIG_COUNT: String(own.length), ...(Object.fromEntries(settings) as Record<string, string>) };
}

/** The exit code of `git config --get-regexp` if nothing matches. */
const NOTHING_FOUND = 1;
const USERS_SCOPES: readonly string[] = ['system', 'global'];

/** Git's output; undefined if git fails, is missing, or takes too long. */
async function git(folder: string, args: string[], environment?: NodeJS.ProcessEnv): Promise<string | undefined> {
  const { text, code } = await runGit(folder, args, environment);
  return code === 0 ? text.trim() : undefined;
}

interface GitAnswer {
  text: string;
  /** Undefined if git did not exit by itself. */
  code: number | undefined;
}

/**
 * Options that protect from untrusted folders. A folder may come from anybody, with a configuration that names programs
 * to run or with a repository among its sources. Git then runs no program, fetches nothing and writes nothing.
 */
const SAFE = [
  ...['-c', 'core.fsmonitor=false'],
  ...['-c', 'core.hooksPath=/dev/null'],
  ...['-c', 'safe.bareRepository=explicit'],
  '--no-optional-locks',
];
const NO_TRANSPORT = { GIT_ALLOW_PROTOCOL: 'none', GIT_NO_LAZY_FETCH: '1', GIT_TERMINAL_PROMPT: '0' };

function runGit(folder: string, args: string[], environment: NodeJS.ProcessEnv = {}): Promise<GitAnswer> {
  return new Promise((resolve) => {
    execFile(
      'git',
      [...SAFE, '-C', folder, ...args],
      {
        timeout: LIMIT_MS,
        maxBuffer: MAX_BYTES,
        windowsHide: true,
        env: { ...withoutSecrets(process.env), ...NO_TRANSPORT, ...environment },
      },
      (error, stdout) => {
        const code = error ? error.code : 0;
        resolve({ text: stdout, code: typeof code === 'number' ? code : undefined });
      },
    );
  });
}
