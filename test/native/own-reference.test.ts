/** The functions that flashcore_reference.h gives to a problem's own reference.cpp. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { smallValues } from '@flashcore/shared/kernels';
import { missing, temporaryFolder } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ROOT } from '../support/home.ts';

const LIMIT_MS = 60_000;
const INCLUDE = join(ROOT, 'kernels/reference');
const compile = (...args: string[]): Buffer =>
  execFileSync(process.env['CXX'] ?? 'c++', ['-std=c++17', '-I', INCLUDE, ...args]);

test('a reference can ask which optional outputs a kernel has', () => {
  using folder = temporaryFolder();
  const source = join(folder.path, 'asks.cpp');
  writeFileSync(
    source,
    `#include "flashcore_reference.h"
int main() {
  flashcore::Case c;
  c.tensors = {{"X", flashcore::Dtype::fp32, false, {2}, {}, {}}, {"Y", flashcore::Dtype::fp32, true, {2}, {}, {}}};
  for (const char* name : {"X", "Y", "Z"}) std::putchar(c.has_output(name) ? '1' : '0');
}`,
  );
  const program = join(folder.path, 'asks');
  compile(source, '-o', program);
  expect(execFileSync(program, { encoding: 'utf8' })).toBe('010');
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
  using folder = temporaryFolder();
  const [source, program] = [join(folder.path, 'bytes.cpp'), join(folder.path, 'bytes')];
  writeFileSync(source, EVERY_BYTE);
  compile(source, '-o', program);
  const said = execFileSync(program, { encoding: 'utf8' }).trim().split(' ');
  const numbers = said.map((text) => Number(text.replace('inf', 'Infinity').replace(/-?nan/, 'NaN')));
  expect(numbers).toEqual((['e4m3', 'e5m2', 'int8'] as const).flatMap((dtype) => [...smallValues(dtype)]));
});

test.skipIf(missing('python3'))('a reference in Python reads every number of fp8 exactly', () => {
  const said = execFileSync('python3', [
    '-c',
    'import sys; sys.path.insert(0, sys.argv[1]); from python_reference import small_floats; print(*(repr(each) for name in ("float8_e4m3fn", "float8_e5m2") for each in small_floats(name)))',
    INCLUDE,
  ]);
  const numbers = said
    .toString()
    .trim()
    .split(' ')
    .map((text) => Number(text.replace('inf', 'Infinity').replace('nan', 'NaN')));
  expect(numbers).toEqual((['e4m3', 'e5m2'] as const).flatMap((dtype) => [...smallValues(dtype)]));
});

/** Function bodies for references whose output Y has two elements. The program below selects a body by its index. */
const BODIES = [
  'Y(0) = 1; Y(1) = NAN; std::fprintf(stderr, "a note");',
  'Y(0) = 1;',
  'Y(0) = 1; Y(1) += 1;',
  'Y(0) = Y(1) = 1; std::printf("%g", Y(0));',
  'Y(0) = Y(1) = 1; for (int n = 0; n < 1000000; ++n) std::printf("x");',
  'Y(0) = Y(1) = 1; std::exit(0);',
  'static int calls = 0; Y(0) = ++calls; Y(1) = 7;',
  'Y(0) = Y(1) = 1; if (fork() == 0) usleep(200000);',
];
const [ANNOTATED, HALF, ADDS, PRINTS, FLOODS, EXITS, COUNTS, FORKS] = [...BODIES.keys()];
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'flashcore-own-reference-'));
  const source = join(folder, 'reference.cpp');
  writeFileSync(
    source,
    `#include <cmath>
#include <unistd.h>
#include "flashcore_reference.h"
void reference(const flashcore::Case& c) {
  auto Y = c.output("Y");
  switch (static_cast<int>(c.value("body"))) {
${BODIES.map((body, number) => `case ${number}: { ${body} break; }`).join('\n')}
  }
}`,
  );
  compile(join(INCLUDE, 'reference_main.cpp'), source, '-o', join(folder, 'reference'));
}, LIMIT_MS);
afterAll(() => rmSync(folder, { recursive: true }));

/** A case whose only value is the body's number, and whose only tensor is the output Y of two fp32 elements. */
function caseOf(body: number): Buffer {
  const message = Buffer.alloc(4 + 32 + 8 + 4 + 32 + 3 * 4 + 8);
  message.writeUInt32LE(1, 0);
  message.write('body', 4);
  message.writeDoubleLE(body, 36);
  message.writeUInt32LE(1, 44);
  message.write('Y', 48);
  for (const [index, value] of [2, 1, 1, 2].entries()) message.writeUInt32LE(value, 80 + 4 * index);
  return message;
}

const answersOf = (body: number, count = 1) =>
  spawnSync(join(folder, 'reference'), { input: Buffer.concat(Array.from({ length: count }, () => caseOf(body))) });

test.each([
  ['sets every element succeeds, whatever it prints to stderr', ANNOTATED!, 0, 'a note'],
  ['leaves an element unset fails', HALF!, 1, 'reference.cpp set 1 of 2 elements of Y: it must set every element\n'],
  [
    'adds to an element that it has not set fails',
    ADDS!,
    1,
    'reference.cpp set 1 of 2 elements of Y: it must set every element\n',
  ],
  ['prints to stdout fails', PRINTS!, 1, 'reference.cpp prints "1": remove that, or print to stderr\n'],
  ['prints to stdout without end fails', FLOODS!, 1, 'prints "xxx'],
  ['ends its process fails', EXITS!, 1, 'reference.cpp ended its process: it must return\n'],
])('a reference that %s', (_, body, status, said) => {
  const ended = answersOf(body);
  expect([ended.status, ended.stdout.length]).toEqual([status, status === 0 ? 17 : 0]);
  expect(ended.stderr.toString()).toContain(said);
});

test('a reference keeps nothing from one case to the next', () => {
  const { status, stdout } = answersOf(COUNTS!, 3);
  expect([status, stdout.length]).toEqual([0, 3 * 17]);
  for (const from of [0, 17, 34])
    expect([stdout.readDoubleLE(from), stdout.readDoubleLE(from + 8), stdout[from + 16]]).toEqual([1, 7, 0x0a]);
});

test('the outputs of a case end only when every process that the reference started has ended', () => {
  const { stdout } = answersOf(FORKS!);
  // Both processes give both outputs, and then the newline follows.
  expect([stdout.length, stdout.at(-1)]).toEqual([33, 0x0a]);
});
