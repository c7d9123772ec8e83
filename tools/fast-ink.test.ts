import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
// eslint-disable-next-line @nx/enforce-module-boundaries -- the root's configuration has no package name
import config from '../vitest.config.ts';
import { fastInkTests, withFastOutput, withLateTables, withoutFetch } from './fast-ink.mjs';

const ink = dirname(createRequire(import.meta.url).resolve('ink'));
const renderer = join(ink, 'renderer.js');

test("the installed Ink's renderer draws with our rows and is otherwise unchanged", () => {
  const original = readFileSync(renderer, 'utf8');
  const changed = withFastOutput(original, renderer).split('\n');
  expect(changed.filter((line, index) => line !== original.split('\n')[index])).toEqual([
    expect.stringMatching(/^import InkOutput .*row-output\.ts"; const Output = withRowFastPath\(InkOutput\);$/),
  ]);
  // Our rows rely on Ink's writing to an output and reading it exactly once.
  expect(original).toMatch(/new Output\(\{/);
  expect(readFileSync(join(ink, 'output.js'), 'utf8')).toMatch(/^ {4}write\(x, y, text, options\)/m);
});

test('the changed yoga-layout decodes its WebAssembly itself, and another version is refused', () => {
  const yoga = join(dirname(createRequire(ink).resolve('yoga-layout')), '../binaries/yoga-wasm-base64-esm.js');
  const original = readFileSync(yoga, 'utf8');
  expect(withoutFetch(original, yoga)).toBe(original.replace('w||"function"!=typeof fetch?Promise', 'w||true?Promise'));
  expect(() => withoutFetch('fetch()', 'yoga.js')).toThrow(
    'Adapt tools/fast-ink.mjs to this version of yoga-layout: yoga.js has no one',
  );
});

test('string-width gives the same widths if its tables are built late, and another version is refused', async () => {
  const widths = createRequire(join(import.meta.dirname, '../apps/tui/package.json')).resolve('string-width');
  const changed = withLateTables(readFileSync(widths, 'utf8'), widths).replaceAll(
    /from '(.*)'/g,
    (_, name: string) => `from ${JSON.stringify(pathToFileURL(createRequire(widths).resolve(name)).href)}`,
  );
  expect(changed).not.toMatch(/^const .*(Segmenter|RGI_Emoji)/m);
  interface Widths {
    default: (text: string) => number;
  }
  const { default: stringWidth } = (await import(pathToFileURL(widths).href)) as Widths;
  const late = (await import(`data:text/javascript,${encodeURIComponent(changed)}`)) as Widths;
  for (const text of ['plain', 'naïve', '日本語', '👩‍👩‍👧', '🇩🇪!', '1️⃣', 'e\u0301', '\u200b', '한글'])
    expect(late.default(text), text).toBe(stringWidth(text));
  expect(() => withLateTables('', 'index.js')).toThrow('Adapt tools/fast-ink.mjs to this version of string-width');
});

test('an Ink that imports its output in another form is refused', () => {
  expect(() => withFastOutput("import {Output} from './output.js';", 'renderer.js')).toThrow(
    'Adapt tools/fast-ink.mjs to this version of Ink: renderer.js has no one line',
  );
});

test("fa-tui's tests also draw with our rows", () => {
  const projects = (config.test?.projects ?? []) as { plugins?: unknown[]; test: { name: string; server?: unknown } }[];
  const tui = projects.find(({ test: { name } }) => name === 'tui');
  expect(tui?.plugins).toContain(fastInkTests);
  expect(tui?.test.server).toEqual({ deps: { inline: ['ink'] } });
});
