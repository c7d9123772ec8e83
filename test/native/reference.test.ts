/** The reference that kernels are judged by, in C++, by its own test. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, test } from 'vitest';
import { ROOT } from '../support/home.ts';
import { REFERENCE_LIMIT_MS, referenceLibrary } from '../support/reference.ts';

const build = mkdtempSync(join(tmpdir(), 'fc-native-'));
afterAll(() => rmSync(build, { recursive: true }));

test(
  'the reference, exact and in the plain arithmetic of each dtype, agrees with triple loops',
  async () => {
    const program = join(build, 'reference_test');
    const source = join(ROOT, 'kernels/reference/attention_reference_test.cpp');
    const native = process.arch === 'arm64' ? '-mcpu=native' : '-march=native';
    const flags = ['-std=c++17', '-O3', native, '-fno-math-errno', '-fno-trapping-math', '-pthread'];
    // The library that runners load, compiled once for all tests.
    const library = await referenceLibrary();
    execFileSync(process.env['CXX'] ?? 'c++', [...flags, source, library, '-o', program]);
    execFileSync(program, { stdio: 'pipe' });
  },
  REFERENCE_LIMIT_MS,
);
