import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { PAGE_PATH, ROOT, readRun, reliabilityPage } from './page.ts';
import { PROMISES } from './promises.ts';

const run = readRun()!;

test('docs/reliability.md matches the figures of the last soak', async () => {
  expect(readFileSync(PAGE_PATH, 'utf8')).toBe(await reliabilityPage(run));
});

test.each(Object.entries(PROMISES))('%s: the tests that show the promise exist', (_, { tests }) => {
  expect(tests.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

test('the last soak ran every campaign of this folder that reports figures', () => {
  const campaigns = readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith('.test.ts'))
    .flatMap((name) =>
      readFileSync(join(import.meta.dirname, name), 'utf8')
        .split(/^campaign\(/m)
        .slice(1),
    )
    .filter((text) => /\bfigure\(/.test(text))
    .map((text) => /^\s*(['"])((?:(?!\1)[^\\]|\\.)*)\1/.exec(text)![2]!.replaceAll('\\', ''));
  expect(campaigns).toContain('mutated frames to the service of pilots');
  const stored = new Set(run.figures.map((figure) => figure.test));
  expect(campaigns.filter((name) => !stored.has(name))).toEqual([]);
});
