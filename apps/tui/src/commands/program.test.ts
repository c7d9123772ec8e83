import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { measuredFolder } from '@flashcore/shared/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { COMMAND_GROUPS, commandByHabit, habitNames } from '../state/shell-commands.ts';
import { runProgram } from './program.ts';

// Bad usage is reported before a runner is contacted or started, so FLASHCORE_HOME stays empty in all of these tests.
let home: string;
beforeAll(() => void (home = mkdtempSync(path.join(tmpdir(), 'fa-'))));
afterAll(() => rmSync(home, { recursive: true }));

async function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const text = { stdout: '', stderr: '' };
  const stream = (name: 'stdout' | 'stderr') => ({
    isTTY: false,
    write: (piece: string) => void (text[name] += piece),
  });
  const code = await runProgram(args, {
    stdin: {},
    stdout: stream('stdout'),
    stderr: stream('stderr'),
    environment: { FLASHCORE_HOME: path.join(home, 'unused'), FLASHCORE_CONFIG: path.join(home, 'runners.json') },
  });
  return { code, ...text };
}

describe('bad usage exits with 2, prints nothing on stdout, and says what is expected', () => {
  const folder = (name: string) => path.join(home, name);
  beforeAll(() => {
    mkdirSync(folder('empty'));
    mkdirSync(folder('wrong'));
    writeFileSync(
      path.join(folder('wrong'), 'kernel.yaml'),
      'id: wrong\ntitle: no launches\nsource: wrong.cu\nmin_arch: sm_80\n',
    );
    writeFileSync(folder('file.cu'), '');
  });
  test.each<[string, () => string[], () => RegExp]>([
    ['an unknown command', () => ['runn', 'fa_v2_wmma'], () => /did you mean "run"/],
    ['a mistyped command', () => ['kernles'], () => /did you mean "kernels"/],
    [
      'a report into a folder that does not exist',
      () => ['run', 'fa_v2_wmma', '--junit', folder('nowhere/r.xml')],
      () => /--junit: .*nowhere is not a folder; give a file in one that exists/,
    ],
    [
      'a recording at the path of a folder',
      () => ['watch', '0123abcd', '--record', folder('empty')],
      () => /--record: .*empty is a folder; give a file/,
    ],
    [
      'an artifact at the path of a folder',
      () => ['artifact', 'ab'.repeat(32), '-o', folder('empty')],
      () => /--output: .*empty is a folder; give a file/,
    ],
    [
      'a --tls-ca file that does not exist',
      () => ['jobs', '--runner', 'host:1', '--tls-ca', folder('ca.crt')],
      () => /--tls-ca \(or \$FLASHCORE_TLS_CA\): can't be read, ENOENT.*ca\.crt/,
    ],
    [
      'replay of a folder',
      () => ['replay', folder('empty')],
      () => /empty is a folder: give a recording made with --record/,
    ],
    [
      'an unknown option',
      () => ['run', 'fa_v2_wmma', '--shap', '1x1x1x1'],
      () => /unknown option '--shap'[\s\S]*--shape/,
    ],
    [
      'problem import with an option of problem check',
      () => ['problem', 'import', 'x', '--dtype', 'bf16'],
      () => /--dtype: goes with problem check/,
    ],
    [
      'problem check with an option of problem import',
      () => ['problem', 'check', '--to', 'x'],
      () => /go with problem import/,
    ],
    ['an unknown action of problem', () => ['problem', 'chek'], () => /Allowed choices are list, check, import/],
    [
      'problem import without a definition',
      () => ['problem', 'import'],
      () => /problem import: give a definition of FlashInfer-Bench/,
    ],
    [
      'problem import without --to',
      () => ['problem', 'import', folder('empty')],
      () => /give the folder of your problems with --to/,
    ],
    [
      'no kernel argument in a folder without a kernel',
      () => ['run'],
      () => /has no kernel\.yaml: go to a kernel's folder, or give a kernel or folder$/m,
    ],
    ['an empty kernel argument', () => ['run', ''], () => /It is empty: give a kernel or folder, or leave it out/],
    ['a malformed shape', () => ['run', 'fa_v2_wmma', '--shape', '2x8x512'], () => /must be such as 2x8x512x64/],
    ['a shape with a zero', () => ['verify', 'fa_v2_wmma', '--shape', '0x8x512x64'], () => /batch/],
    [
      'too many seeds',
      () => ['verify', 'fa_v2_wmma', '--seeds', '101'],
      () => /--seeds 101: must be a whole number from 1 to 100/,
    ],
    [
      '--seeds together with --seed',
      () => ['verify', 'fa_v2_wmma', '--seeds', '1', '--seed', 'ab'],
      () => /--seeds and --seed: give one of them/,
    ],
    [
      'a seed that is not a number',
      () => ['verify', 'fa_v2_wmma', '--seed', 'xyz'],
      () => /--seed xyz: must be hexadecimal/,
    ],
    ['an unknown backend of SDPA', () => ['bench', '--sdpa', 'flsh'], () => /all, flash, cudnn, efficient, math/],
    [
      'an unknown rival',
      () => ['bench', 'x', '--rivals', 'flex,fa4'],
      () => /Must be some of all, flash_attention_3, /,
    ],
    [
      '--baseline, the former name of --sdpa',
      () => ['bench', '--baseline', 'sdpa'],
      () => /now --sdpa, for example --sdpa all/,
    ],
    [
      'a parameter without a value',
      () => ['build', 'fa_v2_wmma', '--set', 'USE_WMMA'],
      () => /--set USE_WMMA: must be NAME=INTEGER/,
    ],
    [
      'a parameter that is given twice',
      () => ['build', 'fa_v2_wmma', '--set', 'A=1', '--set', 'A=2'],
      () => /gives A twice/,
    ],
    [
      '--champion-set without --champion',
      () => ['bench', 'fa_v2_wmma', '--champion-set', 'A=1'],
      () => /--champion-set: needs --champion/,
    ],
    [
      '--backward-set without --backward',
      () => ['export', 'fa_v2_wmma', '--torch', 'x.py', '--backward-set', 'A=1'],
      () => /--backward-set: needs --backward/,
    ],
    [
      'a champion folder that does not exist',
      () => ['bench', 'fa_v2_wmma', '--champion', './nowhere'],
      () => /nowhere does not exist/,
    ],
    ['too few registers', () => ['build', 'fa_v2_wmma', '--max-registers', '8'], () => /from 16 to 255/],
    ['a time limit of 0', () => ['bench', 'fa_v2_wmma', '--max-seconds', '0'], () => /above 0/],
    ['an address without a port', () => ['host', '--runner', 'gpu01'], () => /host:port/],
    ['an invalid port', () => ['host', '--runner', 'gpu01:70000'], () => /host:port/],
    ['an unknown color mode', () => ['host', '--color', 'maybe'], () => /auto, always, never/],
    ['a kernel folder that does not exist', () => ['run', './nowhere'], () => /nowhere does not exist/],
    ['a file instead of a kernel folder', () => ['run', folder('file.cu')], () => /is a file/],
    ['a folder without a manifest', () => ['run', folder('empty')], () => /empty[\s\S]*kernel\.yaml/],
    ['a wrong manifest', () => ['run', folder('wrong')], () => /wrong[\s\S]*kernel\.yaml[\s\S]*launches/],
    [
      'a watched folder that does not exist',
      () => ['watch-source', folder('nowhere')],
      () => /nowhere is not a folder/,
    ],
    [
      'a recording that does not exist',
      () => ['replay', folder('nowhere')],
      () => /nowhere does not exist: .*--record/,
    ],
    ['a file that is not a recording', () => ['replay', path.join(folder('wrong'), 'kernel.yaml')], () => /line 1/],
    [
      '--record together with --detach',
      () => ['run', 'fa_v2_wmma', '--detach', '--record', 'x'],
      () => /--detach: does not go with --record/,
    ],
    [
      '--restart-interrupted without --request-id',
      () => ['run', 'fa_v2_wmma', '--restart-interrupted'],
      () => /--restart-interrupted: give --request-id/,
    ],
    ['an invalid digest', () => ['artifact', 'abc'], () => /64 hexadecimal digits/],
    [
      'a runner name that no login defined',
      () => ['host', '--runner', 'gpu01'],
      () => /host:port[\s\S]*No runner has a name here/,
    ],
    ['a TLS option without --runner', () => ['host', '--tls-ca', 'x'], () => /--tls-ca, .* name it with --runner/],
    [
      'a login without a credential',
      () => ['login', 'gpu01:50051'],
      () => /No token and no certificate was given: .*stdin/,
    ],
    ['a login to a socket file', () => ['login', 'unix:/x'], () => /needs no login/],
    [
      'a login with an invalid name',
      () => ['login', 'gpu01:50051', '--name', '../x'],
      () => /--name \.\.\/x: must be of letters/,
    ],
    ['a logout from an unknown runner', () => ['logout', 'gpu01'], () => /Unknown runner "gpu01"/],
    [
      '--inline with a command that prints a plain report',
      () => ['--inline', 'run', 'fa_v2_wmma'],
      () => /run writes a plain report: --inline and --mouse are for the terminal program/,
    ],
    [
      'an export without a format',
      () => ['export', 'fa_v1_baseline'],
      () => /give --torch <file.py>, --wheel <folder>, --kernelbench/,
    ],
    [
      'an export whose file name Python cannot import',
      () => ['export', 'fa_v1_baseline', '--torch', 'my-kernel.py'],
      () => /--torch my-kernel.py: must be a name that Python can import/,
    ],
    [
      'new with the path of an existing folder',
      () => ['new', folder('empty')],
      () => /empty exists already: give another name/,
    ],
    [
      'new with an invalid id',
      () => ['new', folder('My-Kernel')],
      () => /must be of lower-case letters, .* for example my_kernel/,
    ],
    [
      'new below a folder that does not exist',
      () => ['new', folder('nowhere/mine')],
      () => /There is no folder .*nowhere: make it/,
    ],
    ['a page size of 0', () => ['jobs', '--limit', '0'], () => /--limit/],
  ])('%s', async (_, args, wanted) => {
    const { code, stdout, stderr } = await run(...args());
    expect(stderr).toMatch(wanted());
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });
});

test.each(['--version', '-V'])('%s prints the version on stdout and exits with 0', async (option) => {
  expect(await run(option)).toEqual({
    code: 0,
    stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) as string,
    stderr: '',
  });
});

test('help and help <command> work like --help', async () => {
  expect(await run('help')).toEqual(await run('--help'));
  expect(await run('help', 'verify')).toEqual(await run('verify', '--help'));
});

test('a benchmark file without any figure gives a message on stderr', async () => {
  const wrong = `${measuredFolder('h200-2026-11-21')}/fa-tui/nan_output.json`;
  expect(await run('report', '--from', wrong, '--format', 'bencher')).toEqual({
    code: 0,
    stdout: '{}\n',
    stderr: 'No figure is in it: nothing was measured in these jobs\n',
  });
});

test('without a command and a terminal, fa-tui prints one line with the expected arguments and exits with 2', async () => {
  expect(await run()).toEqual({
    code: 2,
    stdout: '',
    stderr:
      'error: There is no terminal on stdin and stdout for the terminal program: give a command; fa-tui --help lists them\n',
  });
});

test.each([
  [['runn', 'x'], /^error: Unknown command "runn" \(did you mean "run" .*\); fa-tui --help lists them\n$/],
  [['xyzzy', '--foo'], /^error: Unknown command "xyzzy"; fa-tui --help lists them\n$/],
  [['attach'], /^error: Unknown command "attach" \(here it is "watch": .*\); fa-tui --help lists them\n$/],
  [
    ['help', 'ps'],
    /^error: Unknown command "ps" \(here it is "jobs": list jobs, newest first\); fa-tui --help lists .*\n$/,
  ],
  [['help', 'verfy'], /^error: Unknown command "verfy" \(did you mean "verify"\?\); fa-tui --help lists them\n$/],
  [['--jsn'], /^error: unknown option '--jsn' \(did you mean --json\?\)\nfa-tui --help lists what it takes\n$/],
  [['run', '--shap', 'x'], /^error: unknown option '--shap' \(did you mean --shape\?\)\nfa-tui run --help lists .*\n$/],
  [['jobs', 'x'], /^error: too many arguments for 'jobs'\. Expected 0 .*\nfa-tui jobs --help lists what it takes\n$/],
])('the error for %j has at most two lines: the mistake, and the command for help', async (args, wanted) => {
  const { code, stdout, stderr } = await run(...args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(wanted);
});

test('--help goes to stdout with exit code 0 and names every command', async () => {
  const { code, stdout } = await run('--help');
  expect(code).toBe(0);
  for (const name of [
    'start',
    'run',
    'build',
    'verify',
    'bench',
    'profile',
    'watch-source',
    'replay',
    'kernels',
    'new',
    'host',
    'jobs',
    'watch',
    'cancel',
    'history',
    'artifact',
    'login',
    'logout',
    'runners',
  ])
    expect(stdout).toContain(`\n  ${name} `);
});

test('the help of commands that open the terminal program lists --inline and --mouse', async () => {
  const heeds = async (...command: string[]): Promise<boolean> =>
    /--inline/.test((await run(...command, '--help')).stdout);
  expect([
    await heeds(),
    await heeds('start'),
    await heeds('watch-source'),
    await heeds('run'),
    await heeds('jobs'),
  ]).toEqual([true, true, true, false, false]);
});

test('a missing runner is an error with exit code 3 at once, and names the address', async () => {
  const startedAt = Date.now();
  const { code, stdout, stderr } = await run('host', '--runner', 'unix:/nowhere/runner.sock');
  expect({ code, stdout }).toEqual({ code: 3, stdout: '' });
  expect(stderr).toContain('/nowhere/runner.sock');
  expect(Date.now() - startedAt).toBeLessThan(5_000);
});

test('--help lists every command under one of the headings', async () => {
  const { stdout } = await run('--help');
  const headings = stdout.split('\n').filter((line) => /^[A-Z].*:$/.test(line));
  expect(headings).toEqual([
    'Options:',
    'Run a kernel:',
    'Kernels and problems:',
    'Jobs and results:',
    'Champions:',
    'Runners:',
    'This program:',
  ]);
});

test('a name of another tool leads to one command that exists, and is itself no command', () => {
  const commands = COMMAND_GROUPS.flatMap(([, names]) => names);
  const names = habitNames();
  expect(names.filter((name) => commands.includes(name))).toEqual([]);
  expect(names.filter((name) => !commands.includes(commandByHabit(name) ?? ''))).toEqual([]);
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});
