import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { ALL_TESTS } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { compared } from './ratios.ts';

const ROOT = join(import.meta.dirname, '../..');

test('compared() calls code worse only if it takes 1.3 times as long in all three tries', () => {
  expect(compared(() => 1.4)).toEqual({ worse: true, quotients: [1.4, 1.4, 1.4] });
  expect(compared(() => 1.3)).toEqual({ worse: false, quotients: [1.3] });
  // The machine was busy during the first try only.
  expect(compared((attempt) => [1.4, 1.1][attempt]!)).toEqual({ worse: false, quotients: [1.4, 1.1] });
});

const against = (args: string[]) => {
  const program = ['--experimental-transform-types', '--no-warnings', join(import.meta.dirname, 'against.ts')];
  const { status, stdout, stderr } = spawnSync(process.execPath, [...program, ...args], { encoding: 'utf8' });
  return { status, stdout, stderr };
};

test('against.ts refuses a missing commit, an unknown commit and an unknown bench', () => {
  const refused: [args: string[], status: number, why: string][] = [
    [[], 2, 'one commit to compare with is needed'],
    [['HEAD', '--only', 'x'], 2, 'no bench "x": must be one of rpc, '],
    [['no-such-commit', '--only', 'start'], 1, 'invalid reference: no-such-commit'],
  ];
  for (const [args, status, why] of refused) {
    const answer = against(args);
    expect([answer.status, answer.stderr]).toEqual([status, expect.stringContaining(why)]);
  }
});

// Shows in each CI run that against.ts does not report unchanged code as slower.
if (ALL_TESTS)
  test('against.ts exits with 1 if one bench does its work twice', () => {
    const head = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim();
    const { status, stdout, stderr } = against([head, '--only', 'start', '--short', '--slow', 'start']);
    expect([stderr, status]).toEqual(['', 1]);
    expect(stdout).toContain(`slower than the code of ${head}: start`);
  }, 600_000);
