/**
 * fa-tui's changes to Ink, the same for the build and for the tests, so that the tests see the program that users run.
 * Ink calls string-width for every cell of every frame and lays out every cell again. fa-tui replaces both by faster
 * code for what it draws (apps/tui/src/terminal), which calls the originals for everything else. It also changes how
 * Ink's layout engine is loaded.
 */
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** @param {string} name */
const terminalModule = (name) => fileURLToPath(new URL(`../apps/tui/src/terminal/${name}.ts`, import.meta.url).href);
const STRING_WIDTH = terminalModule('string-width');
const RENDERER = /\/ink\/build\/renderer\.js$/;
const OUTPUT_IMPORT = "import Output from './output.js';";

/**
 * Replaces the line that imports something by other lines. They stay on one line, so that no other line moves.
 * @param {string} source
 * @param {string} path
 * @param {string} line
 * @param {string[]} others
 * @returns {string}
 */
function withImport(source, path, line, others) {
  if (source.split(line).length !== 2)
    throw new Error(`Adapt tools/fast-ink.mjs to this version of Ink: ${path} has no one line "${line}"`);
  return source.replace(line, others.join(' '));
}

/**
 * Ink's renderer, with our rows in front of its output. Throws for another version of Ink.
 * @param {string} source
 * @param {string} path
 * @returns {string}
 */
export function withFastOutput(source, path) {
  return withImport(source, path, OUTPUT_IMPORT, [
    "import InkOutput from './output.js';",
    `import { withRowFastPath } from ${JSON.stringify(terminalModule('row-output'))};`,
    'const Output = withRowFastPath(InkOutput);',
  ]);
}

const SQUASH = /\/ink\/build\/squash-text-nodes\.js$/;
const SANITIZER_IMPORT = "import sanitizeAnsi from './sanitize-ansi.js';";

/**
 * Ink's scan of a text for sequences that would disturb its layout, done once per text rather than twice per frame for
 * every row. Throws for another version of Ink.
 * @param {string} source
 * @param {string} path
 * @returns {string}
 */
export function withRememberedTexts(source, path) {
  return withImport(source, path, SANITIZER_IMPORT, [
    "import sanitizeText from './sanitize-ansi.js';",
    `import { remembered } from ${JSON.stringify(terminalModule('row-output'))};`,
    'const sanitizeAnsi = remembered(sanitizeText);',
  ]);
}

const YOGA = /\/yoga-layout\/dist\/binaries\/yoga-wasm-base64-esm\.js$/;
const ASKS_FETCH = '"function"!=typeof fetch?Promise';

/**
 * Yoga's WebAssembly is a data URL in the file. It is decoded here rather than by fetch(), for which Node would load
 * its whole HTTP client, a seventh of fa-tui's start. Throws for another version of yoga-layout.
 * @param {string} source
 * @param {string} path
 * @returns {string}
 */
export function withoutFetch(source, path) {
  if (source.split(ASKS_FETCH).length !== 2)
    throw new Error(`Adapt tools/fast-ink.mjs to this version of yoga-layout: ${path} has no one ${ASKS_FETCH}`);
  return source.replace(ASKS_FETCH, 'true?Promise');
}

const WIDTHS = /\/string-width\/index\.js$/;
/**
 * Tables that the package prepares when it is loaded (22 ms of processor time), and their replacements, prepared on
 * first use.
 */
const LATE = [
  ['const segmenter = new Intl.Segmenter();', 'let segmenter;'],
  ['segmenter.segment(', '(segmenter ??= new Intl.Segmenter()).segment('],
  ['const rgiEmojiRegex = /^\\p{RGI_Emoji}$/v;', 'let rgiEmojiRegex;'],
  ['rgiEmojiRegex.test(', '(rgiEmojiRegex ??= /^\\p{RGI_Emoji}$/v).test('],
];

/**
 * string-width, with the emoji table made only when it meets a text that our table does not know, which is rare. Throws
 * for another version of string-width.
 * @param {string} source
 * @param {string} path
 * @returns {string}
 */
export function withLateTables(source, path) {
  return LATE.reduce((text, [part = '', late = '']) => {
    if (text.split(part).length !== 2)
      throw new Error(`Adapt tools/fast-ink.mjs to this version of string-width: ${path} has no one ${part}`);
    return text.replace(part, () => late);
  }, source);
}

/**
 * Replaces the package string-width by ours, except in our own file, which asks the package about texts that it does
 * not know.
 * @param {string} name
 * @param {string | undefined} importer
 * @returns {string | undefined}
 */
const resolved = (name, importer) => (name === 'string-width' && importer !== STRING_WIDTH ? STRING_WIDTH : undefined);

/** For esbuild. */
export const fastInkBuild = {
  name: 'fast-ink',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^string-width$/ }, ({ path, importer }) => {
      const ours = resolved(path, importer);
      return ours === undefined ? undefined : { path: ours };
    });
    onLoad({ filter: RENDERER }, ({ path }) => ({
      contents: withFastOutput(readFileSync(path, 'utf8'), path),
      resolveDir: dirname(path),
    }));
    onLoad({ filter: SQUASH }, ({ path }) => ({
      contents: withRememberedTexts(readFileSync(path, 'utf8'), path),
      resolveDir: dirname(path),
    }));
    onLoad({ filter: YOGA }, ({ path }) => ({ contents: withoutFetch(readFileSync(path, 'utf8'), path) }));
    onLoad({ filter: WIDTHS }, ({ path }) => ({ contents: withLateTables(readFileSync(path, 'utf8'), path) }));
  },
};

/** For Vite, and therefore for Vitest, where Ink is inlined. */
export const fastInkTests = {
  name: 'fast-ink',
  enforce: /** @type {const} */ ('pre'),
  /**
   * @param {string} name
   * @param {string | undefined} importer
   */
  resolveId: (name, importer) => resolved(name, importer),
  /**
   * @param {string} code
   * @param {string} id
   */
  transform: (code, id) => {
    if (RENDERER.test(id)) return { code: withFastOutput(code, id), map: null };
    return SQUASH.test(id) ? { code: withRememberedTexts(code, id), map: null } : undefined;
  },
};
