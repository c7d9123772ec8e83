/** The reference that kernels are judged by, in C++, by its own test. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, test } from 'vitest';
import { ROOT } from '../support/home.ts';

const build = mkdtempSync(join(tmpdir(), 'fc-native-'));
afterAll(() => rmSync(build, { recursive: true }));

test('the reference, exact and in the plain arithmetic of each dtype, agrees with triple loops', () => {
  const program = join(build, 'reference_test');
  const folder = join(ROOT, 'kernels/reference');
  const native = process.arch === 'arm64' ? '-mcpu=native' : '-march=native';
  const compiler = process.env['CXX'] ?? 'c++';
  execFileSync(compiler, [
    '-std=c++17',
    '-O3',
    native,
    '-fno-math-errno',
    '-fno-trapping-math',
    '-pthread',
    join(folder, 'attention_reference.cpp'),
    join(folder, 'attention_reference_test.cpp'),
    '-o',
    program,
  ]);
  execFileSync(program, { stdio: 'pipe' });
}, 120_000);
