/** A repository of kernels with a flashcore.yaml, from its user's view. */
import { appendFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { edited } from '@flashcore/shared/testing';
import { Home, ROOT, type CommandResult } from '../support/home.ts';

const home = new Home();
let repository: string;
let below: string;
let kept: string;

beforeAll(() => {
  repository = join(home.path, "kernels of 100% ours'");
  below = join(repository, 'docs/notes');
  mkdirSync(below, { recursive: true });
  expect(inRepository('init')).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('made') as string });
  kept = readFileSync(file(), 'utf8');
});
afterAll(() => home[Symbol.asyncDispose]());

const file = (): string => join(repository, 'flashcore.yaml');
const inRepository = (...args: string[]): CommandResult => home.faTui(args, { cwd: repository });
const fromBelow = (...args: string[]): CommandResult => home.faTui(args, { cwd: below });

/** Runs `body` with these lines added to the file that `init` wrote. */
function withLines<Result>(lines: string, body: () => Result): Result {
  appendFileSync(file(), lines);
  try {
    return body();
  } finally {
    writeFileSync(file(), kept);
  }
}

test('init does not change an existing flashcore.yaml', () => {
  expect(inRepository('init')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining('flashcore.yaml exists already') as string,
  });
  expect(readFileSync(file(), 'utf8')).toBe(kept);
});

/** `problem check`'s message about an unknown problem, in one line. */
function unknownProblem(name: string, cwd = repository): string {
  const { exitCode, stderr } = home.faTui(['problem', 'check', name], { cwd });
  expect(exitCode).toBe(2);
  return stderr.replaceAll(/\s+/g, ' ');
}

test('a problem in the folder that init makes is found, and an unknown one says where it was searched', () => {
  expect(kept).toContain('\nproblems: problems\n');
  const problems = join(repository, 'problems');
  cpSync(join(ROOT, 'problems/softmax'), join(problems, 'our_softmax'), { recursive: true });
  const definition = join(problems, 'our_softmax/problem.yaml');
  writeFileSync(definition, edited(readFileSync(definition, 'utf8'), 'id: softmax', 'id: our_softmax'));
  expect(fromBelow('problem', 'list', 'our_softmax')).toMatchObject({ exitCode: 0 });
  expect(unknownProblem('our_sofmax')).toContain(
    `our_sofmax is not a problem here (did you mean "our_softmax"?); searched ${join(ROOT, 'problems')}, ${problems}; `,
  );
  mkdirSync(join(problems, 'begun'));
  expect(unknownProblem('begun')).toContain(`${join(problems, 'begun')} has no problem.yaml: write it`);
  const named = edited(kept, '\nproblems: problems\n', '\n');
  writeFileSync(file(), named);
  expect(unknownProblem('our_softmax', below)).toContain(
    `${join(problems, 'our_softmax')} is there: write problems: problems into ${file()}`,
  );
  writeFileSync(file(), kept);
  rmSync(problems, { recursive: true });
  expect(unknownProblem('our_softmax')).toContain(`, ${problems} (which does not exist); `);
  // Other commands need no folder of problems.
  expect(inRepository('problem', 'list', 'softmax')).toMatchObject({ exitCode: 0 });
});

test('a kernel of the repository is run by its name from any of its folders, and later from anywhere', () => {
  expect(inRepository('new', 'kernels/our_kernel').exitCode).toBe(0);
  const verified = fromBelow('verify', 'our_kernel', '--shape', '1x1x64x64', '--seeds', '1');
  expect([verified.exitCode, verified.stdout]).toEqual([0, expect.stringContaining('our_kernel')]);
  const elsewhere = (kernel: string) =>
    home.faTui(['verify', kernel, '--shape', '1x1x64x64', '--seeds', '1'], { cwd: home.path });
  expect(elsewhere('our_kernel')).toMatchObject({ exitCode: 0 });
  const unknown = elsewhere('their_kernel');
  expect([unknown.exitCode, unknown.stderr]).toEqual([2, expect.stringContaining('Unknown kernel "their_kernel"')]);
});

test("run uses the file's plan unless an option names another plan; a kernel without notes passes but cannot be accepted", () => {
  const run = (...options: string[]) =>
    fromBelow('run', 'our_kernel', '--shape', '1x1x64x64', '--seeds', '1', '--max-seconds', '0.1', ...options);
  withLines('plan: explore\n', () => {
    expect(run().stdout).toContain('Plan explore');
    const { stdout, exitCode } = run('--plan', 'merge');
    expect(stdout).toContain('Plan merge');
    // The sentence may go over several lines.
    expect([exitCode, stdout.replaceAll(/\s+/g, ' ')]).toEqual([
      0,
      expect.stringContaining(
        'NOTES.md was not filled in when this job ran: write into NOTES.md what the kernel changes and why, then accept the result',
      ),
    ]);
  });
});

test("the project's runner is a login, never an address, and options and environment take precedence over it", () => {
  withLines('runner: 127.0.0.1:1\n', () => {
    const { exitCode, stderr } = fromBelow('kernels');
    expect([exitCode, stderr]).toEqual([2, expect.stringMatching(/flashcore\.yaml: runner: must be a login of yours/)]);
    expect(fromBelow('config', 'show', '--json').stdout).toContain('refused, it is not one of your logins');
    expect(fromBelow('kernels', '--runner', '127.0.0.1:1').stderr).toContain('No runner at 127.0.0.1:1');
    const byVariable = home.faTui(['kernels'], { cwd: below, env: { FLASHCORE_RUNNER: '127.0.0.1:1' } });
    expect(byVariable.stderr).toContain('No runner at 127.0.0.1:1');
  });
  const logins = join(home.path, 'runners.json');
  writeFileSync(logins, JSON.stringify({ gpu: { address: '127.0.0.1:1' } }), { mode: 0o600 });
  withLines('runner: gpu\n', () => {
    const env = { FLASHCORE_CONFIG: logins };
    expect(home.faTui(['kernels'], { cwd: below, env }).stderr).toMatch(/No runner at .*127\.0\.0\.1:1/);
    const shown = home.faTui(['config', 'show', '--json'], { cwd: below, env });
    expect((JSON.parse(shown.stdout) as { settings: unknown[] }).settings).toContainEqual({
      name: 'runner',
      value: 'gpu',
      from: file(),
    });
  });
});

test('champions are looked up in the folder that flashcore.yaml names', () => {
  expect(fromBelow('champions', '--load').stderr).toContain(join(repository, 'champions', 'champions.json'));
});
