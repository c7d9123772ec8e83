/**
 * fa-tui's changes to Ink. The build and the tests apply the same changes, so that the tests see the program that users
 * run. Ink calls string-width for every cell of every frame and lays out every cell again. fa-tui replaces both by code
 * that is faster for what fa-tui draws (apps/tui/src/terminal). For anything else that code calls the originals. It
 * also changes how Ink's layout engine is loaded.
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
 * Replaces the line of an import by other statements. These are written on one line, so that line numbers stay the
 * same.
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
 * Changes Ink's renderer so that our rows draw before its own output does. Throws for another version of Ink.
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
 * Changes Ink's scan of texts for sequences that would disturb its layout. Ink scans every row twice per frame; the
 * changed code scans each text once. Throws for another version of Ink.
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
 * Yoga's WebAssembly is a data URL in the file. The changed code decodes it without fetch(), for which Node would load
 * its whole HTTP client. That would take a seventh of fa-tui's start. Throws for another version of yoga-layout.
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
 * Statements with which the package builds tables when it is loaded (22 ms of processor time), and their replacements,
 * which build the tables on first use.
 */
const LATE = [
  ['const segmenter = new Intl.Segmenter();', 'let segmenter;'],
  ['segmenter.segment(', '(segmenter ??= new Intl.Segmenter()).segment('],
  ['const rgiEmojiRegex = /^\\p{RGI_Emoji}$/v;', 'let rgiEmojiRegex;'],
  ['rgiEmojiRegex.test(', '(rgiEmojiRegex ??= /^\\p{RGI_Emoji}$/v).test('],
];

/**
 * Changes string-width so that it builds its emoji table only for a text that our table does not know, which is rare.
 * Throws for another version of string-width.
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
 * Replaces the package string-width by our module, except in that module, which asks the package about texts that it
 * does not know.
 * @param {string} name
 * @param {string | undefined} importer
 * @returns {string | undefined}
 */
const resolved = (name, importer) => (name === 'string-width' && importer !== STRING_WIDTH ? STRING_WIDTH : undefined);

/** The plugin for esbuild. */
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

/** The plugin for Vite, and therefore for Vitest, which processes Ink's code. */
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
