import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readCorpus } from '@flashcore/test/corpus';
import { PAGE_PATH, cheatingPage, readResults } from './page.ts';

test('docs/cheating.md matches the stored runs', async () => {
  expect(readFileSync(PAGE_PATH, 'utf8')).toBe(await cheatingPage());
});

test('the stored emulator runs have every cheat of the corpus, and the GPU runs have no other cheats', () => {
  const wanted = readCorpus().cheats.map(({ name }) => name);
  const { gpu, ...complete } = readResults().results;
  for (const result of Object.values(complete)) expect(result.cheats.map(({ name }) => name)).toEqual(wanted);
  // A GPU that is available for only minutes may not finish; the page then says "not run".
  expect(wanted).toEqual(expect.arrayContaining(gpu?.cheats.map(({ name }) => name) ?? []));
});
