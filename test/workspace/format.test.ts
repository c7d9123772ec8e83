/** `npm run lint` fails on a file that is not formatted: TypeScript, CUDA, Python and Markdown. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ROOT } from '../support/home.ts';

const RULES = ['.prettierrc.json', '.prettierignore', '.clang-format', '.markdownlint-cli2.jsonc', '.gitignore'];
// A repository with this one's rules and nothing in it.
const folder = mkdtempSync(join(tmpdir(), 'fc-format-'));
afterAll(() => rmSync(folder, { recursive: true }));
beforeAll(() => {
  for (const file of [...RULES, 'tools/format-python.ts']) cpSync(join(ROOT, file), join(folder, file));
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: object };
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify({ name: 'probe', scripts }, null, 2)}\n`);
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'good.ts'), "export const word = 'a';\n");
  writeFileSync(join(folder, 'good.cu'), 'int good() { return 1; }\n');
  writeFileSync(join(folder, 'good.md'), '# Good\n\nA sentence.\n');
  spawnSync('git', ['init', '--quiet'], { cwd: folder });
});

/** Exit code and output of the format check, with one more file. */
function check(name: string, text: string): { status: number | null; output: string } {
  writeFileSync(join(folder, name), text);
  spawnSync('git', ['add', '--all'], { cwd: folder });
  const { status, stdout, stderr } = spawnSync('npm', ['run', '--silent', 'format:check'], {
    cwd: folder,
    encoding: 'utf8',
  });
  rmSync(join(folder, name));
  return { status, output: `${stdout}${stderr}` };
}

test('`npm run lint` runs the format check', () => {
  const { scripts, nx } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
    nx: { targets: { lint: { options: { commands: string[] } } } };
  };
  expect(scripts['lint']).toBe('nx run-many -t lint');
  expect(nx.targets.lint.options.commands).toContain('npm run --silent format:check');
});

test('what is formatted passes', () => {
  const { status, output } = check('empty.md', '# Empty\n');
  expect(status, output).toBe(0);
});

test.each([
  ['bad.ts', 'export const  word = "a"\n'],
  ['bad.cu', 'int bad( ) {return 1;}\n'],
  ['bad.py', 'word = "a";\n'],
  ['unused.py', 'import json\n'],
  ['bad.md', `# Bad\n\n${'A sentence. '.repeat(20)}\n`],
  ['link.md', '# Link\n\nA [link](gone\n'.replace('(gone', `(${'x'.repeat(20)} y)\n\n### Skips a level`)],
])('%s is refused by its name', (name, text) => {
  const { status, output } = check(name, text);
  expect(status).not.toBe(0);
  expect(output).toContain(name);
});
