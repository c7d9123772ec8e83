/** Runs the conformance suite, which a GPU's driver must pass, on the emulator. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { ROOT } from '../support/home.ts';
import { CudaDriver } from '@flashcore/runner/testing';
import { compileImages } from './bench.ts';
import checks from './checks.ts';
import { PRIMITIVES } from './primitives.ts';

// Both tests use one compiled copy of the emulator's library.
const env = { ...process.env, FLASHCORE_CONFORMANCE_CACHE: mkdtempSync(join(tmpdir(), 'fc-conformance-')) };
afterAll(() => rmSync(env.FLASHCORE_CONFORMANCE_CACHE, { recursive: true }));

test('libcuda_emu.so passes the conformance suite', () => {
  const output = execFileSync(process.execPath, [join(ROOT, 'test/dist/conformance.js'), 'emulator'], {
    encoding: 'utf8',
    env,
  });
  expect(output).toMatch(new RegExp(`^${checks.length} passed, 0 failed`, 'm'));
}, 300_000);

test('a library without the PTX engine refuses PTX', async () => {
  const folder = env.FLASHCORE_CONFORMANCE_CACHE;
  const { library } = await compileImages('emulator', ROOT, folder, {});
  const ptx = join(folder, 'nothing.ptx');
  writeFileSync(ptx, '.version 8.0\n.target sm_89\n.address_size 64\n');
  expect(() => new CudaDriver(library, 0).loadModule(ptx)).toThrow('CUDA_ERROR_INVALID_IMAGE');
}, 300_000);

test('every instruction of kernels/primitives that the emulator supports does what the PTX manual says', () => {
  const output = execFileSync(process.execPath, [join(ROOT, 'test/dist/primitives.js')], { encoding: 'utf8', env });
  const hopper = PRIMITIVES.filter(({ source }) => source === 'primitives_sm90a');
  expect(output).toMatch(
    new RegExp(`^${PRIMITIVES.length - hopper.length} agree, 0 do not, ${hopper.length} not carried`, 'm'),
  );
}, 300_000);

test('every function of kernels/primitives is tested', () => {
  const folder = join(ROOT, 'kernels/primitives');
  const functions = readdirSync(folder).flatMap((file) =>
    [
      ...readFileSync(join(folder, file), 'utf8')
        .split('#else')[0]!
        .matchAll(/__forceinline__ \w+ (\w+)\(/g),
    ].map(([, name]) => name!),
  );
  const kernels = readdirSync(join(ROOT, 'test/conformance/kernels'))
    .map((file) => readFileSync(join(ROOT, 'test/conformance/kernels', file), 'utf8'))
    .join('');
  expect(functions.filter((name) => !new RegExp(`\\b${name}\\b`).test(kernels))).toEqual([]);
  expect(functions.length).toBeGreaterThan(20);
});

test.each(['conformance', 'primitives'])(
  '%s says in one line what is missing on this host, and what to do',
  (program) => {
    const run = (...args: string[]) =>
      spawnSync(process.execPath, [join(ROOT, `test/dist/${program}.js`), ...args], { encoding: 'utf8', env });
    expect(run('--help')).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(new RegExp(`^flashcore-${program} \\[`)) as string,
    });
    expect(run('--nonsense')).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/^error: Unknown option '--nonsense'.*\nflashcore-/) as string,
    });
    const { status, stderr } = run('libnodriver.so.1');
    expect([status, stderr.trim().split('\n')]).toEqual([
      3,
      [
        expect.stringMatching(
          /^error: (Name the driver library of a host with a GPU.*libnodriver\.so\.1 can't be loaded|Wanted nvcc)/,
        ),
      ],
    ]);
  },
  300_000,
);
