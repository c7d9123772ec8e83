import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { resultsTables } from './results-tables.mjs';

const RESULTS = join(import.meta.dirname, '../docs/results');

test.each(readdirSync(RESULTS))('docs/results/%s: the tables are what the stored JSON gives', (name) => {
  const folder = join(RESULTS, name);
  expect(readFileSync(join(folder, 'README.md'), 'utf8')).toBe(resultsTables(folder));
});
