/** Runs the C++ test of the reference that kernels are judged by. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, test } from 'vitest';
import { ROOT } from '../support/home.ts';
import { REFERENCE_LIMIT_MS, referenceLibrary } from '../support/reference.ts';

const build = mkdtempSync(join(tmpdir(), 'fc-native-'));
afterAll(() => rmSync(build, { recursive: true }));

test.each([
  ['contiguous attention, in fp64 and in the plain arithmetic of each dtype', 'attention_reference_test'],
  [
    'drawn problems of attention; it refuses hostile ones, and dropped keys and wrong gradients exceed their rounding',
    'attention_test',
  ],
])(
  'the oracle equals triple loops: %s',
  async (_, name) => {
    const program = join(build, name);
    const source = join(ROOT, `kernels/reference/${name}.cpp`);
    const native = process.arch === 'arm64' ? '-mcpu=native' : '-march=native';
    const flags = ['-std=c++17', '-O3', native, '-fno-math-errno', '-fno-trapping-math', '-pthread'];
    // The library that runners load, compiled once for all tests.
    const library = await referenceLibrary();
    execFileSync(process.env['CXX'] ?? 'c++', [...flags, source, library, '-o', program]);
    execFileSync(program, { stdio: 'pipe' });
  },
  REFERENCE_LIMIT_MS,
);
