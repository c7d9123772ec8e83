/** Figures and labels agree with the data that they show, and refusals say why. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Verdict } from '@flashcore/shared/contract';
import { missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Home } from '../support/home.ts';

let home: Home;
beforeAll(() => {
  home = new Home();
});
afterAll(() => home[Symbol.asyncDispose]());

const GATES = `
default: mine
gates:
  - { id: barriers, metric: barrier_instructions, op: "<=", target: 0, why: each one waits }
plans:
  mine: { title: Mine, about: all, from: here, metrics: gates, gates: { barriers: hard } }
`;

test.skipIf(missing('nvcc'))(
  'a run has a gate for barriers and names a counter that the emulator lacks',
  { timeout: 120_000 },
  () => {
    const [folder, gates] = [join(home.path, 'my_kernel'), join(home.path, 'gates.yaml')];
    expect(home.faTui(['new', folder])).toMatchObject({ exitCode: 0 });
    writeFileSync(gates, GATES);
    const settings = ['--shape', '1x1x64x64', '--seeds', '1', '--samples', '10', '--max-seconds', '0.2'];
    const counters = ['--metrics', 'gates', '--metric', 'dram__bytes.sum'];
    const { response, stderr } = home.runJson(['run', folder, '--gates', gates, ...settings, ...counters]);
    const [variant] = response.result?.variants ?? [];
    expect(
      variant?.gates.map(({ gateId, verdict, detail }) => [gateId, Verdict[verdict], detail]),
      stderr,
    ).toEqual([['barriers', 'FAIL', expect.stringContaining('each one waits')]]);
    expect(variant!.profile!.reason).toMatch(/not read: dram__bytes\.sum/);
    const shown = home.faTui(['watch', response.job!.name]).stdout.replaceAll(/\s+/g, ' ');
    expect(shown).toMatch(/missing .*not read: dram__bytes\.sum/);
  },
);

test('asking for the champions of an unknown kernel is an error that names the nearest kernels', () => {
  expect(home.faTui(['champions', '--kernel', 'fa_v1_baselin'])).toMatchObject({
    exitCode: 2,
    stdout: '',
    stderr: expect.stringMatching(/Unknown kernel "fa_v1_baselin".*did you mean "fa_v1_baseline"/) as string,
  });
  expect(home.faTui(['champions', '--kernel', 'fa_v1_baseline'])).toMatchObject({ exitCode: 0 });
});

test('a leaderboard by means accepts a set of cases that the runner knows, but not together with a shape', () => {
  const board = (...args: string[]) => home.faTui(['leaderboard', ...args]);
  expect(board('--cases', 'succes')).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/case_set.*did you mean "success"/) as string,
  });
  expect(board('--cases', 'success', '--shape', '1x8x512x64').stderr).toMatch(/--shape and --cases: give one of them/);
  expect(board('--cases', 'success')).toMatchObject({
    exitCode: 0,
    stdout: expect.stringMatching(/^Leaderboard\s+mean over success hot on [^]*Emulator times are not/) as string,
  });
});

test.each([
  ['0', /--max-usd 0: must be dollars, .*leave --max-usd out for no limit/],
  ['-1', /--max-usd -1: must be dollars, above 0/],
  ['free', /--max-usd free: must be dollars, above 0/],
])('a search with --max-usd %s says which values the option takes', (dollars, problem) => {
  const asked = ['evolve', 'fa_v1_baseline', '--proposer', 'true', '--max-usd', dollars];
  expect(home.faTui(asked)).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(problem) as string });
});
