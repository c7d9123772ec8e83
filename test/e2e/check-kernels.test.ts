/** The GitHub Action: its script runs in a repository of kernels, on the emulator, with a stub for `gh`. */
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { Home, ROOT } from '../support/home.ts';

const SCRIPT = join(ROOT, 'tools/ci/check-kernels.sh');
/** A file name that would do harm as a word in a shell, and whose second line is a workflow command. */
const HOSTILE = '-x $(touch harm)\n::error::no';

const home = new Home();
afterAll(() => home[Symbol.asyncDispose]());

let repository: string;
const inRepository = (file: string): string => join(repository, file);
const git = (...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: repository, stdio: 'ignore' });
const commitAll = (): void => {
  git('add', '-A');
  git('commit', '-qm', 'change');
};

beforeAll(() => {
  repository = join(home.path, 'kernels of ours');
  mkdirSync(inRepository('bin'), { recursive: true });
  for (const name of ['kernels/right', 'kernels/untouched', HOSTILE])
    cpSync(join(ROOT, 'kernels/fa_v1_baseline'), inRepository(name), { recursive: true });
  const gh = `#!/bin/sh\necho "$@" >> '${join(home.path, 'gh.log')}'\ncase "$*" in *--paginate*) printf '%s' "$COMMENTS";; esac\n`;
  writeFileSync(inRepository('bin/gh'), gh, { mode: 0o755 });
  git('init', '-q');
  commitAll();
});

interface Check {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly comment: string;
}

function check(environment: Record<string, string> = {}, ...args: string[]): Check {
  const { status, stdout, stderr } = spawnSync(SCRIPT, args.length === 0 ? ['HEAD^1'] : args, {
    cwd: inRepository('kernels'),
    encoding: 'utf8',
    timeout: 240_000,
    env: {
      ...home.env,
      PATH: `${inRepository('bin')}${delimiter}${home.env.PATH}`,
      FLASHCORE_PLAN: 'explore',
      FLASHCORE_ARGUMENTS: '--shape 1x1x64x64 --seeds 1 --samples 5 --no-fallback',
      GITHUB_REPOSITORY: 'someone/attention',
      ...environment,
    },
  });
  const file = inRepository('flashcore-ci/comment.md');
  return { status, stdout, stderr, comment: existsSync(file) ? readFileSync(file, 'utf8') : '' };
}

test('judges only the kernels that a commit touches', { timeout: 300_000 }, () => {
  appendFileSync(inRepository('kernels/right/fa_v1_baseline.cu'), '\n');
  appendFileSync(inRepository('README'), 'x\n');
  appendFileSync(join(inRepository(HOSTILE), 'kernel.yaml'), '\nno_such_key: 1\n');
  commitAll();
  const { status, stdout, stderr, comment } = check({ GH_TOKEN: 'x', NUMBER: '7', COMMENTS: '' });
  expect([status, stderr]).toEqual([2, '']);
  expect(stdout).toContain('kernels/right, emulator: exit status 0');
  expect(stdout).not.toContain('untouched');
  // The file's name is printed on one line, so GitHub reads no part of it as a workflow command.
  expect(stdout.split('\n').filter((line) => line.startsWith('::error'))).toEqual([
    expect.stringMatching(/^::error file=-x \$\(touch harm\)%0A%3A%3Aerror%3A%3Ano\/kernel\.yaml,title=.*no_such_key/),
  ]);
  expect([inRepository('harm'), inRepository('kernels/harm')].filter((file) => existsSync(file))).toEqual([]);
  expect(comment).toMatch(/^<!-- flashcore:flashcore -->\n[^]*passed[^]*Not judged:[^]*no_such_key/);
  expect(readFileSync(join(home.path, 'gh.log'), 'utf8')).toContain('--method POST repos/someone/attention/issues/7');
});

test('a wrong kernel fails with annotations, and the action edits its existing comment', { timeout: 300_000 }, () => {
  appendFileSync(inRepository('kernels/right/fa_v1_baseline.cu'), 'syntax error here\n');
  commitAll();
  // The runner of the first test stands in for the GPU host.
  const host = { FLASHCORE_GPU_RUNNER: home.runnerInfo()!.address };
  const { status, stdout } = check({ GH_TOKEN: 'x', NUMBER: '7', COMMENTS: '4711', ...host });
  expect([status, stdout]).toEqual([
    1,
    expect.stringMatching(/^::error file=kernels\/right\/fa_v1_baseline\.cu,line=\d+/m),
  ]);
  expect(stdout.match(/^kernels\/right, (emulator|gpu): exit status 1$/gm)).toHaveLength(2);
  expect(readFileSync(join(home.path, 'gh.log'), 'utf8')).toContain('issues/comments/4711');
});

test('the action judges nothing if no kernel was touched, and reports a missing base commit', () => {
  appendFileSync(inRepository('README'), 'y\n');
  commitAll();
  expect(check()).toMatchObject({ status: 0, comment: expect.stringContaining('No kernel is touched') as string });
  expect(check({}, 'no-such-commit')).toMatchObject({
    status: 2,
    stderr: expect.stringContaining('no-such-commit: must be a commit of this checkout') as string,
  });
});

test('the action passes its inputs to the script as variables, never as script text', () => {
  const { runs } = parse(readFileSync(join(ROOT, 'action.yml'), 'utf8')) as {
    runs: { using: string; steps: { run?: string; shell?: string }[] };
  };
  const scripts = runs.steps.flatMap(({ run }) => (run === undefined ? [] : [run]));
  expect(scripts.filter((text) => text.includes('${{'))).toEqual([]);
  for (const script of scripts)
    expect(spawnSync('bash', ['-n'], { input: script, encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
});
