/**
 * The files that the offline bundle and the npm package ship. They keep the repository's layout, so that the programs
 * find them as in a clone.
 */
import { cpSync, readFileSync, writeFileSync, existsSync } from 'node:fs';
import { join, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));
export const PLATFORM = `${process.platform}-${process.arch}`;
/** koffi with its native library for this platform. The programs load no other packages at run time. */
const NATIVE_PACKAGES = ['koffi', `@koromix/koffi-${PLATFORM}`];

const SHIPPED = [
  'apps/runner/dist',
  'apps/tui/dist',
  'libs/emulator',
  'apps/runner/worker/canary.cu',
  'apps/runner/worker/clock-stamp.cu',
  'apps/runner/worker/judge.cu',
  'kernels',
  'problems',
  'examples',
  'proto',
  'rivals',
  'tools',
  'test/dist',
  'test/conformance/kernels',
  'lab/dist',
  'lab/first-day',
  'lab/gpu_host',
  'lab/measure/empty',
  'test/fixtures',
  'LICENSE',
  ...NATIVE_PACKAGES.map((name) => `node_modules/${name}`),
];
const PAGES = ['kernels/README.md', 'libs/emulator/README.md'];
const LEFT_OUT = /\.map$|\/(?:__pycache__|compiled|rivals\/built|dist\/testing|dist\/bench|tools\/docs\/node_modules)$/;

/** Copies the built programs and the files that they read into a folder. */
export function stageFiles(stage: string): void {
  for (const path of SHIPPED)
    cpSync(join(ROOT, path), join(stage, path), {
      recursive: true,
      dereference: true,
      filter: (source) => !LEFT_OUT.test(source),
    });
  for (const file of PAGES.map((path) => join(stage, path)))
    writeFileSync(file, withoutDeadLinks(readFileSync(file, 'utf8'), file));
}

/**
 * Replaces links to missing files in the Markdown of `file` by their text, for copies of it without some of the files.
 */
export function withoutDeadLinks(markdown: string, file: string): string {
  return markdown.replace(
    /\[((?:[^[\]]|\[[^[\]]*\])+)\]\(([^)\s#]+)(#[^)\s]*)?\)/g,
    (link, text: string, target: string) =>
      /^\w+:/.test(target) || existsSync(join(dirname(file), target)) ? link : text,
  );
}
