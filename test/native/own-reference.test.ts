/** The functions of flashcore_reference.h for a problem's own reference.cpp. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../support/home.ts';

test('a reference can ask which optional outputs a kernel has', () => {
  const folder = mkdtempSync(join(tmpdir(), 'flashcore-own-reference-'));
  try {
    const source = join(folder, 'asks.cpp');
    writeFileSync(
      source,
      `#include "flashcore_reference.h"
int main() {
  flashcore::Case c;
  c.tensors = {{"X", flashcore::Dtype::fp32, false, {2}, {}, {}}, {"Y", flashcore::Dtype::fp32, true, {2}, {}, {}}};
  for (const char* name : {"X", "Y", "Z"}) std::putchar(c.has_output(name) ? '1' : '0');
}`,
    );
    const program = join(folder, 'asks');
    const include = join(ROOT, 'kernels/reference');
    execFileSync(process.env['CXX'] ?? 'c++', ['-std=c++17', '-I', include, source, '-o', program]);
    expect(execFileSync(program, { encoding: 'utf8' })).toBe('010');
  } finally {
    rmSync(folder, { recursive: true });
  }
});
