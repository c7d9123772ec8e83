/**
 * Runs the emulator's own tests, which are in C++ and test below the driver API. Only FLASHCORE_TESTS=all compiles
 * their kernels, and compares each opcode with an H200's results and with its definition.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

const ALL_TESTS = process.env['FLASHCORE_TESTS'] === 'all';
const answers = (program: string) => spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;
/**
 * tools/skipped-reporter.ts finds the missing package by this function's name. The emulator imports nothing from
 * flashcore.
 */
const missing = (name: 'clang' | 'nvcc') => !answers({ clang: 'clang++-19', nvcc: 'nvcc' }[name]);
const hasNvcc = !missing('nvcc');
const hasPtx = hasNvcc || !missing('clang');
/**
 * Runners build the PTX engine only if the machine can make PTX, because compiling the engine takes 80 s of processor
 * time.
 */
const withEngine = hasPtx || ALL_TESTS;

const build = mkdtempSync(join(tmpdir(), 'fc-emulator-'));
afterAll(() => rmSync(build, { recursive: true }));

/**
 * The library as runners build it, compiled once for these tests and for the runner's tests. It runs compiled C++ as
 * well as PTX.
 */
let library: string;
beforeAll(() => {
  library = /^emulator: (.*)$/m.exec(compiled())![1]!;
}, 600_000);

function compiled(...flags: string[]): string {
  const runner = join(import.meta.dirname, '../../../apps/runner/bin/flashcore-runner.js');
  const into = process.env['FLASHCORE_LIBRARY_CACHE'] ?? join(build, 'libraries');
  const wanted = ['compile', '--emulator-engine', withEngine ? 'ptx' : 'fibres', '--into', into, ...flags];
  return execFileSync(process.execPath, [runner, ...wanted], { encoding: 'utf8' });
}

test.skipIf(!withEngine)(
  'the PTX engine passes its tests',
  () => {
    const names = ['ptx', 'hopper'];
    if (ALL_TESTS && hasPtx) names.push('calls', 'foreign', 'orders', 'warps', 'matrices', 'races', 'memory');
    if (ALL_TESTS && hasNvcc) names.push('counters', 'probes/faulty', 'checked');
    if (ALL_TESTS && answers('python3')) names.push('opcodes');
    for (const [path, built] of [['host', library], ...lowerPaths()] as [string, string][]) {
      const output = execFileSync('sh', [join(import.meta.dirname, 'ptx.sh'), join(build, `ptx-${path}`)], {
        encoding: 'utf8',
        env: {
          ...process.env,
          LIBRARY: built,
          ...(!ALL_TESTS && { FRONT_END: 'none' }),
          ...(path !== 'host' && { MODULES: join(build, 'ptx-host/modules') }),
        },
      });
      expect([path, ...output.trim().split('\n')]).toEqual([path, ...names.map((name) => `ok   ${name}`)]);
    }
    if (ALL_TESTS && hasNvcc)
      expect(primitivesOn(join(build, 'ptx-host/libcuda_emu.so'))).toMatch(/^\d+ agree, 0 do not, 0 not carried/m);
  },
  900_000,
);

/** Libraries for older vector instructions, which this processor also has. Only in the long run. */
function lowerPaths(): [string, string][] {
  if (!ALL_TESTS) return [];
  const all = [...compiled('--vectors', 'all').matchAll(/^emulator for (\S+): (.*)$/gm)].map(
    ([, path, built]): [string, string] => [path!, built!],
  );
  return all.slice(all.findIndex(([, built]) => built === library) + 1);
}

/** Compares the Hopper primitives of kernels/primitives with the PTX manual. */
function primitivesOn(library: string): string {
  const program = join(import.meta.dirname, '../../../test/dist/primitives.js');
  const env = { ...process.env, FLASHCORE_CONFORMANCE_CACHE: build };
  return execFileSync(process.execPath, [program, '--ptx-engine', library], { encoding: 'utf8', env });
}

// Each of these tests takes the compiler some seconds. The short run has the driver's errors and the faults of kernels,
// which no test of a whole kernel reaches, and races if the machine makes no PTX: otherwise the test above runs the
// shared tests on the PTX engine.
const onFibres = ALL_TESTS
  ? ['conversions', 'driver', 'faults', 'matrices', 'memory', 'races', 'warps']
  : ['driver', 'faults', ...(hasPtx ? [] : ['races'])];

test(`the fibre engine passes its tests: ${onFibres.join(', ')}`, () => {
  const output = execFileSync('sh', [join(import.meta.dirname, 'run.sh'), build], {
    encoding: 'utf8',
    env: { ...process.env, LIBRARY: library, TESTS: onFibres.join(' ') },
  });
  expect(
    output
      .trim()
      .split('\n')
      .map((line) => line.replace(/^ok +/, '')),
  ).toEqual(onFibres);
}, 300_000);
