import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Markdown of `file` in which a link to a file that is not there is its text alone: for copies that leave some files
 * behind.
 */
export function withoutDeadLinks(markdown: string, file: string): string {
  return markdown.replace(
    /\[((?:[^[\]]|\[[^[\]]*\])+)\]\(([^)\s#]+)(#[^)\s]*)?\)/g,
    (link, text: string, target: string) =>
      /^\w+:/.test(target) || existsSync(join(dirname(file), target)) ? link : text,
  );
}
