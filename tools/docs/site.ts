/**
 * `npm run docs`: builds the pages of docs/ and the gallery of the ladder as a site with a search, in out/docs.
 * VitePress is installed into tools/docs on the first run, so that `npm ci` need not install it. Dead links are an
 * error.
 */
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ROOT, withoutDeadLinks } from '../shipped-files.ts';
import { deadLinks, PAGES } from './pages.ts';

const HERE = import.meta.dirname;
const WITH_TYPES = ['--experimental-transform-types', '--no-warnings'];
const OUT = join(ROOT, 'out/docs');

const dead = deadLinks();
if (dead.length > 0) {
  console.error(`Links must lead to a file or heading that is there, got:\n${dead.join('\n')}`);
  process.exit(1);
}
const program = join(HERE, 'node_modules/vitepress/bin/vitepress.js');
if (!existsSync(program)) execFileSync('npm', ['ci', '--prefix', HERE], { stdio: 'inherit' });

const stage = mkdtempSync(join(tmpdir(), 'flashcore-docs-'));
try {
  stagePages(stage);
  // A process of its own, because no code outside the laboratory imports it.
  execFileSync(process.execPath, [...WITH_TYPES, join(ROOT, 'lab/tables/gallery.ts'), join(stage, 'ladder.md')]);
  mkdirSync(join(stage, '.vitepress'));
  writeFileSync(join(stage, '.vitepress/config.js'), `export default ${JSON.stringify(config(), null, 2)};\n`);
  writeFileSync(join(stage, 'package.json'), '{ "type": "module" }\n');
  // VitePress compiles the pages to modules that import Vue.
  symlinkSync(join(HERE, 'node_modules'), join(stage, 'node_modules'));
  execFileSync(process.execPath, [program, 'build', stage, '--outDir', OUT], { stdio: 'inherit' });
} finally {
  rmSync(stage, { recursive: true, force: true });
}
console.log(`${join(OUT, 'index.html')}  (npx vite preview, or any web server: the search needs one)`);

/** Copies the pages with their paths, so that links between them work. Links to anything else become plain text. */
function stagePages(folder: string): void {
  for (const page of PAGES) {
    mkdirSync(dirname(join(folder, page)), { recursive: true });
    copyFileSync(join(ROOT, page), join(folder, page));
  }
  for (const picture of ['fa-tui.svg', 'fleet-cost.svg'])
    copyFileSync(join(ROOT, 'docs', picture), join(folder, 'docs', picture));
  for (const page of PAGES) {
    const file = join(folder, page);
    writeFileSync(file, forVue(withoutDeadLinks(readFileSync(file, 'utf8'), file)));
  }
}

/** Removes comments, which only flashcore's programs read, and escapes `{{`, which Vue would interpret. */
function forVue(markdown: string): string {
  return markdown.replaceAll(/<!--[^]*?-->/g, '').replaceAll('{{', '&#123;&#123;');
}

function config(): unknown {
  const titleOf = (page: string): string => /^# (.*)$/m.exec(readFileSync(join(ROOT, page), 'utf8'))?.[1] ?? page;
  const linkTo = (page: string) => ({ text: titleOf(page), link: `/${page.replace(/\.md$/, '')}` });
  return {
    title: 'flashcore',
    description: 'The workbench for FlashAttention kernels',
    rewrites: { 'README.md': 'index.md' },
    // Links to the repository's results and sources, which are not on the site, have become plain text.
    ignoreDeadLinks: false,
    themeConfig: {
      search: { provider: 'local' },
      nav: [{ text: 'The ladder', link: '/ladder' }],
      sidebar: [
        { text: 'flashcore', link: '/' },
        { text: 'The ladder, step by step', link: '/ladder' },
        ...PAGES.filter((page) => page !== 'README.md').map(linkTo),
      ],
    },
  };
}
