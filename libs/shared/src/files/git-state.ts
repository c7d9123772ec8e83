/** Which commit a folder was taken from, where it lies in a git repository. */
import { execFile } from 'node:child_process';
import { basename } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { type GitState, GitStateSchema } from '../generated/flashcore/runner/v1/kernel_pb.js';
import { plainLine } from '../text/plain-text.ts';
import { withoutSecrets } from './without-secrets.ts';

const LIMIT_MS = 3_000;
const MAX_BYTES = 256 * 1024;
const MAX_LENGTH = 256;

/** Undefined where the folder lies in no repository, the repository has no commit, or there is no git. */
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
    // A status that can't be read is no proof that nothing changed.
    dirty: changes !== '',
  });
}

/** User and password of a URL are nobody's business; "git@host:path" has none. */
function withoutCredentials(remote: string): string {
  return remote.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@]*@/i, '$1');
}

const bounded = (text: string): string => plainLine(text).slice(0, MAX_LENGTH);

/** Of a submodule the commit alone is looked at: its work tree has a configuration of its own. */
const STATUS = ['status', '--porcelain', '--untracked-files=normal', '--ignore-submodules=dirty'];

/**
 * Settings of the repository's own that name programs which git would run on its files, turned off; undefined where
 * they can't be read. The user's own (Git LFS) stay.
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

/** What `git config --get-regexp` exits with. */
const NOTHING_FOUND = 1;
const USERS_SCOPES: readonly string[] = ['system', 'global'];

/** What git prints; undefined where it fails, is not there, or takes too long. */
async function git(folder: string, args: string[], environment?: NodeJS.ProcessEnv): Promise<string | undefined> {
  const { text, code } = await runGit(folder, args, environment);
  return code === 0 ? text.trim() : undefined;
}

interface GitAnswer {
  text: string;
  /** Undefined: it did not end by itself. */
  code: number | undefined;
}

/**
 * A folder may come from anybody, with a configuration that names programs to run, and even with a repository among its
 * sources: none is run, nothing is fetched, nothing is written.
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
