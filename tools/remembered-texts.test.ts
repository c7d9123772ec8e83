import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { withRememberedTexts } from './fast-ink.mjs';

test("Ink's scan of texts is cached, and another version of Ink is refused", () => {
  const squash = join(dirname(createRequire(import.meta.url).resolve('ink')), 'squash-text-nodes.js');
  const original = readFileSync(squash, 'utf8');
  const changed = withRememberedTexts(original, squash).split('\n');
  expect(changed.filter((line, index) => line !== original.split('\n')[index])).toEqual([
    expect.stringMatching(/^import sanitizeText .*row-output\.ts"; const sanitizeAnsi = remembered\(sanitizeText\);$/),
  ]);
  expect(() => withRememberedTexts('', 'squash.js')).toThrow(
    'Adapt tools/fast-ink.mjs to this version of Ink: squash.js has no one line',
  );
});
