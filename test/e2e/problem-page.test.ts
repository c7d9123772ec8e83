/** The problem and the kernel of docs/problems.md work as the page says. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { edited } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';

const LIMIT_MS = 600_000;
/** A file's name in a line of its own or at the start of one, and the block that follows. */
const FILE = /^`([\w/]+\.\w+)`[^`]*(?:`\w+`[^`]*)?:\n\n```\w+\n([^]*?)```/gm;

test(
  "the page's problem finds its mutants, its kernel is right, and without eps it is wrong",
  { timeout: LIMIT_MS },
  async () => {
    await using home = new Home();
    const repository = join(home.path, 'repository');
    const write = (name: string, text: string): void => {
      mkdirSync(dirname(join(repository, name)), { recursive: true });
      writeFileSync(join(repository, name), text);
    };
    write('flashcore.yaml', 'problems: problems\n');
    const files = [...readFileSync(join(ROOT, 'docs/problems.md'), 'utf8').matchAll(FILE)];
    for (const [, name, text] of files) write(name!, text!);
    expect(files).toHaveLength(5);
    const faTui = (...args: string[]) => home.faTui(args, { cwd: repository, timeoutMs: LIMIT_MS });
    expect(faTui('problem', 'check', 'my_norm').stdout).toContain('my_norm: the cases find all 3 mutants');
    const run = faTui('run', 'kernels/norm_rows');
    expect([run.exitCode, run.stdout]).toEqual([0, expect.stringContaining('PASSED')]);

    const source = join(repository, 'kernels/norm_rows/norm_rows.cu');
    writeFileSync(source, edited(readFileSync(source, 'utf8'), ' + eps', ''));
    const wrong = faTui('verify', 'kernels/norm_rows');
    expect([wrong.exitCode, wrong.stdout]).toEqual([1, expect.stringMatching(/Y\[\d+, \d+\] \(got \S+, want/)]);

    const reference = join(repository, 'problems/my_norm/reference.cpp');
    writeFileSync(reference, edited(readFileSync(reference, 'utf8'), 'long row = 0', 'long row = 1'));
    const check = faTui('problem', 'check', 'my_norm');
    expect(check.exitCode).not.toBe(0);
    expect(check.stderr).toMatch(
      /my_norm: parity N=128,rows=4: .*set 384 of 512 elements of Y: it must set every element/,
    );
    expect(check.stderr).not.toMatch(/^ +at /m);
  },
);
