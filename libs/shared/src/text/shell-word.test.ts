import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { shellWord } from './shell-word.ts';

test('shellWord() is one word for a shell, whatever it contains', () => {
  const words = ['a-plain/word.cu:1', '', ' ', `it's 100% "my" cöde`, '$HOME `id` \\ \n*?;&|<>~!#', `''`];
  const line = `printf '%s\\0' ${words.map(shellWord).join(' ')}`;
  expect(execFileSync('sh', ['-c', line], { encoding: 'utf8' }).split('\0')).toEqual([...words, '']);
  expect(shellWord('a-plain/word.cu:1')).toBe('a-plain/word.cu:1');
});
