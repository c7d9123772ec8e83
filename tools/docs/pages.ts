/** The pages of the site, and a check of their links. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { ROOT } from '../shipped-files.ts';

const BESIDE_DOCS = ['README.md', 'ARCHITECTURE.md', 'SECURITY.md', 'CHANGELOG.md', 'kernels/README.md'];

/** Paths relative to the repository's root. */
export const PAGES: readonly string[] = [
  ...BESIDE_DOCS,
  ...readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

/** "PAGE: TARGET" for every link in the pages to a missing file or heading. */
export function deadLinks(pages: readonly string[] = PAGES, root = ROOT): string[] {
  return pages.flatMap((page) => {
    const text = readFileSync(join(root, page), 'utf8');
    return [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, target]) => target!)
      .filter((target) => !/^\w+:/.test(target) && !leadsSomewhere(target, page, root))
      .map((target) => `${page}: ${target}`);
  });
}

function leadsSomewhere(target: string, page: string, root: string): boolean {
  const [path = '', heading] = target.split('#');
  const file = path === '' ? page : relative(root, join(root, dirname(page), decodeURIComponent(path)));
  if (!existsSync(join(root, file))) return false;
  if (heading === undefined || !file.endsWith('.md')) return true;
  return headingsOf(readFileSync(join(root, file), 'utf8')).has(heading);
}

const withoutCode = (markdown: string): string =>
  markdown.replaceAll(/^(`{3,})[^]*?^\1$/gm, '').replaceAll(/`[^`\n]+`/g, '');

/**
 * Headings in the form that links use: lower case, hyphens for spaces, and a number if an earlier heading has the same
 * text.
 */
function headingsOf(markdown: string): Set<string> {
  const found = new Set<string>();
  for (const [, title] of markdown.replaceAll(/^(`{3,})[^]*?^\1$/gm, '').matchAll(/^#{1,6} (.*)$/gm)) {
    const slug = title!
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(' ', '-');
    let address = slug;
    for (let number = 1; found.has(address); ++number) address = `${slug}-${number}`;
    found.add(address);
  }
  return found;
}
