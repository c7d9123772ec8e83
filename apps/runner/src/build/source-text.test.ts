import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ALL_TESTS, cpuMs, temporaryFolder } from '@flashcore/shared/testing';
import { readSourceText, unescaped } from './source-text.ts';

test.each([
  ['a \\\nb', 'a b'],
  ['a \\  \r\nb', 'a b'],
  ['a /* x\n */ b // c\\\n d\ne', 'a   b \ne'],
  ["\"/*\" '\"' 1'000 /* ' */ x", '"/*" \'"\' 1\'000   x'],
  ['R"(/*\n)" b', 'R"(/* )" b'],
  ['R"x()" \\\n)x" /* c */', 'R"x()" \\ )x"  '],
  ['fooR"(/*" */', 'fooR"(/*" */'],
  ['/* never ends', ' '],
])('the source %j is read as %j', (text, code) => {
  expect(readSourceText(text)).toMatchObject({ code, doubts: [] });
});

test('adjacent string literals are joined, with their escapes resolved', () => {
  const { strings } = readSourceText('asm(".in" /* x */ "c\\x62" u8"in" R"(\\n\n)"); f("a", "b"); L"c" X "d"');
  expect(strings.map(({ text }) => text)).toEqual(['.incbin\\n\n', 'a', 'b', 'c', 'd']);
  expect(unescaped('\\056\\u0062\\U00000063\\n\\"\\q')).toBe('.bc\n"q');
});

test('lineAt() returns the line of the file', () => {
  const { code, lineAt } = readSourceText('// x\na\\\n b\n/*\n\n*/ c R"(\n)" d\n// y\ne');
  expect([...'abcde'].map((letter) => lineAt(code.indexOf(letter)))).toEqual([2, 3, 6, 7, 9]);
});

test.each([
  ['// a\r#include "x"', /carriage return/],
  ['#if __has_include(<x/*y>)\n#include "x" // */', /comment that begins after a "<"/],
  ['#if __has_include(< R"(>)\n#include "x"\n// )"', /raw string that begins after a "<"/],
  ['"a"R"("\n#include "x"\n// )"', /before a raw string/],
  ['\u2192R"(" /* )"\n#include "x"', /before a raw string/],
  ['R"01234567890123456(" /* )"\n#include "x"', /at most 16/],
])('text that compilers may read in two ways is reported as a doubt: %j', (text, reason) => {
  expect(readSourceText(text).doubts).toEqual([{ line: 1, reason: expect.stringMatching(reason) as string }]);
});

test('a source is read in time proportional to its length', () => {
  for (const piece of [
    '/**/',
    '"',
    '"a"/**/',
    "1'",
    '\\\n',
    'R"(',
    '#<',
    '\'"',
    'a"',
    '0',
    '/*',
    '#include "a"\n',
    '\\ ',
  ]) {
    const started = cpuMs();
    readSourceText(piece.repeat(2 ** 18 / piece.length));
    expect(cpuMs() - started, piece).toBeLessThan(1_000);
  }
});

const PIECES = [
  '/*',
  '*/',
  '//',
  '"',
  "'",
  'R"(',
  'R"',
  ')"',
  'u8R"x(',
  ')x"',
  '\\\n',
  '\\ \n',
  '\n',
  '\n',
  '\n#include "found.h"\n',
  '#',
  '%:',
  'include',
  ' ',
  '"found.h"',
  '<found.h>',
  '<',
  '>',
  '\n#if 0\n',
  '\n#if __has_include(',
  ')\n',
  '\n#endif\n',
  '\n#define X ',
  '1',
  'x',
  '(',
  '\\',
  '\r\n',
  '\f',
  '\0',
  '\u00e9',
  '$',
  '\\u00e9',
  '_x',
  '.',
  '\n#error ',
  '#/**/include',
];
const COMPILER = ['g++', 'clang++'].find((name) => spawnSync(name, ['--version']).status === 0);

if (ALL_TESTS)
  test.skipIf(COMPILER === undefined)(
    'every directive that a compiler obeys is found: an include that it opens is listed, or a doubt is reported',
    () => {
      using folder = temporaryFolder();
      writeFileSync(join(folder.path, 'found.h'), '');
      fc.assert(
        fc.property(fc.array(fc.constantFrom(...PIECES), { minLength: 3, maxLength: 30 }), (pieces) => {
          const text = pieces.join('');
          writeFileSync(join(folder.path, 'unit.cpp'), text);
          const { stderr } = spawnSync(COMPILER!, ['-std=c++17', '-E', '-H', 'unit.cpp', '-o', 'unit.ii'], {
            cwd: folder.path,
            encoding: 'utf8',
          });
          if (!/^\. found\.h$/m.test(stderr)) return;
          const { code, doubts } = readSourceText(text);
          expect(
            doubts.length > 0 || /^[\0\t\v\f\r \ufeff]*(?:#|%:)[\0\t\v\f\r ]*include[^\n]*found\.h/m.test(code),
          ).toBe(true);
        }),
        { numRuns: Number(process.env.FLASHCORE_TEXT_RUNS ?? 80) },
      );
    },
  );
