import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Replaces links to missing files by their text in the Markdown of `file`: for copies that leave some files out. */
export function withoutDeadLinks(markdown: string, file: string): string {
  return markdown.replace(
    /\[((?:[^[\]]|\[[^[\]]*\])+)\]\(([^)\s#]+)(#[^)\s]*)?\)/g,
    (link, text: string, target: string) =>
      /^\w+:/.test(target) || existsSync(join(dirname(file), target)) ? link : text,
  );
}
