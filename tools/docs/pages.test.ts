import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { deadLinks } from './pages.ts';

test('every link of the pages leads to an existing file or heading', () => {
  expect(deadLinks()).toEqual([]);
});

test('deadLinks() finds a missing file and a missing heading, and ignores links in code', () => {
  using folder = temporaryFolder();
  const text =
    '# A b, c\n\n## `x` y\n\n## A b, c\n\n[1](#a-b-c) [2](#a-b-c-1) [3](#x-y) [4](#gone) [5](gone.md) `[6](no)`\n';
  writeFileSync(join(folder.path, 'page.md'), text);
  expect(deadLinks(['page.md'], folder.path)).toEqual(['page.md: #gone', 'page.md: gone.md']);
});
