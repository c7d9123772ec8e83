/** The functions that flashcore_reference.h gives to a problem's own reference.cpp. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { smallValues } from '@flashcore/shared/kernels';
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

/** A program that prints the value of every byte in each 8-bit dtype. */
const EVERY_BYTE = `#include "flashcore_reference.h"
int main() {
  using flashcore::Dtype;
  for (const Dtype dtype : {Dtype::e4m3, Dtype::e5m2, Dtype::int8})
    for (int bits = 0; bits < 256; ++bits) {
      const unsigned char byte = bits;
      std::printf("%.17g ", flashcore::value_of(dtype, &byte));
    }
}`;

test('a reference reads every number of an 8-bit dtype exactly', () => {
  const folder = mkdtempSync(join(tmpdir(), 'flashcore-own-reference-'));
  try {
    const [source, program] = [join(folder, 'bytes.cpp'), join(folder, 'bytes')];
    writeFileSync(source, EVERY_BYTE);
    const include = join(ROOT, 'kernels/reference');
    execFileSync(process.env['CXX'] ?? 'c++', ['-std=c++17', '-I', include, source, '-o', program]);
    const said = execFileSync(program, { encoding: 'utf8' }).trim().split(' ');
    const numbers = said.map((text) => Number(text.replace('inf', 'Infinity').replace(/-?nan/, 'NaN')));
    expect(numbers).toEqual((['e4m3', 'e5m2', 'int8'] as const).flatMap((dtype) => [...smallValues(dtype)]));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** A case with no values, whose only tensor is the output Y of two fp32 elements. */
function caseOfY(): Buffer {
  const message = Buffer.alloc(4 + 4 + 32 + 3 * 4 + 8);
  message.writeUInt32LE(1, 4);
  message.write('Y', 8);
  for (const [index, value] of [2, 1, 1, 2].entries()) message.writeUInt32LE(value, 40 + 4 * index);
  return message;
}

test.each([
  [
    'sets every element succeeds, whatever it prints to stderr',
    'Y(0) = 1; Y(1) = NAN; std::fprintf(stderr, "a note");',
    0,
    'a note',
  ],
  [
    'leaves an element unset fails',
    'Y(0) = 1;',
    1,
    'reference.cpp set 1 of 2 elements of Y: it must set every element\n',
  ],
  [
    'adds to an element that it has not set fails',
    'Y(0) = 1; Y(1) += 1;',
    1,
    'reference.cpp set 1 of 2 elements of Y: it must set every element\n',
  ],
  [
    'prints to stdout fails',
    'Y(0) = Y(1) = 1; std::printf("%g", Y(0));',
    1,
    'reference.cpp prints "1": remove that, or print to stderr\n',
  ],
  [
    'prints to stdout without end fails',
    'Y(0) = Y(1) = 1; for (int n = 0; n < 1000000; ++n) std::printf("x");',
    1,
    'prints "xxx',
  ],
])('a reference that %s', { timeout: 60_000 }, (_, body, status, said) => {
  const folder = mkdtempSync(join(tmpdir(), 'flashcore-own-reference-'));
  try {
    const source = join(folder, 'reference.cpp');
    writeFileSync(
      source,
      `#include <cmath>
#include "flashcore_reference.h"
void reference(const flashcore::Case& c) { auto Y = c.output("Y"); ${body} }`,
    );
    const program = join(folder, 'reference');
    const include = join(ROOT, 'kernels/reference');
    const files = [join(include, 'reference_main.cpp'), source];
    execFileSync(process.env['CXX'] ?? 'c++', ['-std=c++17', '-I', include, ...files, '-o', program]);
    const ended = spawnSync(program, { input: caseOfY() });
    expect([ended.status, ended.stdout.length]).toEqual([status, status === 0 ? 16 : 0]);
    expect(ended.stderr.toString()).toContain(said);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
