/**
 * What fa-tui changes in Ink, for the build and for the tests alike, so that these see the program that users run. Ink
 * asks string-width for every cell of every frame and lays every cell out anew: fa-tui brings faster ways for what it
 * draws (apps/tui/src/terminal), which leave the rest to the originals. And what Ink's layout engine is loaded by.
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
 * A source with other lines in place of the one that imports something; all on its line, so that no line moves.
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
 * Ink's renderer, with our rows in front of its output. Throws where this version of Ink is another one.
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
 * Ink's reading of a text for what would disturb its layout, done once a text rather than twice a frame for every row.
 * Throws where this version of Ink is another one.
 * @param {string} source
 * @param {string} path
 * @returns {string}
 */
export function withRememberedTexts(source, path) {
  return withImport(source, path, SANITIZER_IMPORT, [
    "import sanitizeText from './sanitize-ansi.js';",
    `import { remembered } from ${JSON.stringify(terminalModule('remembered'))};`,
    'const sanitizeAnsi = remembered(sanitizeText);',
  ]);
}

const YOGA = /\/yoga-layout\/dist\/binaries\/yoga-wasm-base64-esm\.js$/;
const ASKS_FETCH = '"function"!=typeof fetch?Promise';

/**
 * Yoga's WebAssembly, which lies in the file as a data URL, decoded here rather than by fetch(): Node would load its
 * whole HTTP client for that, a seventh of fa-tui's start. Throws where this version of yoga-layout is another one.
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
/** What the package prepares as it loads, 22 ms of processor time, and what is prepared where it is first used. */
const LATE = [
  ['const segmenter = new Intl.Segmenter();', 'let segmenter;'],
  ['segmenter.segment(', '(segmenter ??= new Intl.Segmenter()).segment('],
  ['const rgiEmojiRegex = /^\\p{RGI_Emoji}$/v;', 'let rgiEmojiRegex;'],
  ['rgiEmojiRegex.test(', '(rgiEmojiRegex ??= /^\\p{RGI_Emoji}$/v).test('],
];

/**
 * string-width, which knows all emoji only once it meets a text that our table does not: few do. Throws where this
 * version of it is another one.
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
 * Our string-width in the package's place, but for our own file, which asks the package where it does not know.
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

/** For Vite, and so for Vitest, where Ink is inlined. */
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
