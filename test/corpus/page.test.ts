import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readCorpus } from './corpus.ts';
import { PAGE_PATH, cheatingPage, readResults } from './page.ts';

test('docs/cheating.md is what the stored runs give', async () => {
  expect(readFileSync(PAGE_PATH, 'utf8')).toBe(await cheatingPage());
});

test('the stored runs of the emulator have every cheat of the corpus, those of a GPU no other', () => {
  const wanted = readCorpus().cheats.map(({ name }) => name);
  const { gpu, ...complete } = readResults().results;
  for (const result of Object.values(complete)) expect(result.cheats.map(({ name }) => name)).toEqual(wanted);
  // A device that is lent for minutes may not get to the end; the page says "not run".
  expect(wanted).toEqual(expect.arrayContaining(gpu?.cheats.map(({ name }) => name) ?? []));
});
