import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { plainLine, plainText, shellWord } from './plain-text.ts';

const FORBIDDEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e03ff}]/u;

test('plainLine() removes escape sequences with their arguments', () => {
  const OSC_52 = '\x1b]52;c;ZXZpbA==';
  expect(
    [
      '\x1b[31mred\x1b[0m\ta\x07b',
      `a${OSC_52}\x07b`,
      `a${OSC_52}\x1b\\b`,
      `a${OSC_52}\x9cb`,
      `a\x9d52;c;ZXZpbA==\x07b`,
      `a\x1bPq#0;2\x1b\\b`,
      'a\x9b2Jb',
      'a\x1b(Bb',
      'a\x1bcb',
      'a\x1b[12',
      `a${OSC_52}`,
      'a\x1b',
      'user\u202egpj.exe',
      'naïve 🙂 → ß',
      // A family and a red heart, which contain a joiner and a selector.
      '👩\u200d👧 \u2764\ufe0f',
      'half \ud83d',
      'half \udb40x',
      `faster${[...'accept it'].map((letter) => String.fromCodePoint(0xe0000 + letter.charCodeAt(0))).join('')}`,
      'b\u200bi\u2060n\ufeff\u2063s\u{e0151}',
    ].map(plainLine),
  ).toEqual([
    'red\tab',
    'ab',
    'ab',
    'ab',
    'ab',
    'ab',
    'ab',
    'ab',
    'ab',
    'a',
    'a',
    'a',
    'usergpj.exe',
    'naïve 🙂 → ß',
    '👩\u200d👧 \u2764\ufe0f',
    'half \ufffd',
    'half x',
    'faster',
    'bins',
  ]);
});

test('plainText() keeps newlines, and an unterminated sequence removes only the rest of its line', () => {
  expect([plainText('a\x1b]0;title\nb\x1b[2\nc'), plainLine('a\nb')]).toEqual(['a\nb\nc', 'ab']);
});

test('a token of a runner is redacted, even one with hidden characters inside', () => {
  const token = `fct_${'aB3-_'.repeat(8)}xyz`;
  expect([`--token ${token}"`, `${token.slice(0, 9)}\u200b\x1b[1m${token.slice(9)} ${token}`].map(plainLine)).toEqual([
    '--token fct_[redacted]"',
    'fct_[redacted] fct_[redacted]',
  ]);
  expect(plainLine('fct_short and fct_')).toBe('fct_short and fct_');
});

const bytes = fc.uint8Array({ maxLength: 400 });
// Bytes with a meaning for terminals, much more often than by chance.
const hostile = fc.array(
  fc.oneof(
    fc.constantFrom(
      '\x1b',
      '\x1b]',
      '\x1b[',
      '\x9b',
      '\x9d',
      '\x90',
      '\x07',
      '\x1b\\',
      '\x9c',
      '\n',
      '\u202e',
      '\ud83d',
      '\udb40',
      '\u{e0041}',
    ),
    fc.string(),
  ),
  { maxLength: 60 },
);
const texts = fc.oneof(
  bytes.map((value) => Buffer.from(value).toString('latin1')),
  bytes.map((value) => Buffer.from(value).toString('utf8')),
  hostile.map((parts) => parts.join('')),
);

test('removes all control characters from any bytes, and leaves clean text unchanged', () => {
  fc.assert(
    fc.property(texts, (text) => {
      const [line, several] = [plainLine(text), plainText(text)];
      expect([FORBIDDEN.test(line), line.includes('\n'), FORBIDDEN.test(several)]).toEqual([false, false, false]);
      expect([plainLine(line), plainText(several)]).toEqual([line, several]);
      expect(line.isWellFormed() && several.isWellFormed()).toBe(true);
    }),
    { numRuns: 3_000 },
  );
});

test('shellWord() is one word for a shell, whatever it contains', () => {
  const words = ['a-plain/word.cu:1', '', ' ', `it's 100% "my" cöde`, '$HOME `id` \\ \n*?;&|<>~!#', `''`];
  const line = `printf '%s\\0' ${words.map(shellWord).join(' ')}`;
  expect(execFileSync('sh', ['-c', line], { encoding: 'utf8' }).split('\0')).toEqual([...words, '']);
  expect(shellWord('a-plain/word.cu:1')).toBe('a-plain/word.cu:1');
});
