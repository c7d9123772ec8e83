/** `npm run lint` fails on an unformatted file: TypeScript, CUDA, Python and Markdown. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ROOT } from '../support/home.ts';

const RULES = ['.prettierrc.json', '.prettierignore', '.clang-format', '.markdownlint-cli2.jsonc', '.gitignore'];
const { scripts, nx } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
  nx: { targets: { lint: { options: { commands: string[] } } } };
};
// An empty repository with the format rules of this repository.
const folder = mkdtempSync(join(tmpdir(), 'fc-format-'));
afterAll(() => rmSync(folder, { recursive: true }));
beforeAll(() => {
  for (const file of [...RULES, 'tools/format-python.ts']) cpSync(join(ROOT, file), join(folder, file));
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify({ name: 'probe', scripts }, null, 2)}\n`);
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'good.ts'), "export const word = 'a';\n");
  writeFileSync(join(folder, 'good.cu'), 'int good() { return 1; }\n');
  writeFileSync(join(folder, 'good.md'), '# Good\n\nA sentence.\n');
  spawnSync('git', ['init', '--quiet'], { cwd: folder });
});

/** The tools of the format check, run separately so that each sees all bad files. */
const TOOLS = scripts['format:check']!.split(' && ');
const PATH = `${join(ROOT, 'node_modules/.bin')}:${process.env['PATH']}`;

/** The output of each tool for the current files. */
function check(): { tool: string; status: number | null; output: string }[] {
  spawnSync('git', ['add', '--all'], { cwd: folder });
  return TOOLS.map((tool) => {
    const env = { ...process.env, PATH };
    const { status, stdout, stderr } = spawnSync('sh', ['-c', tool], { cwd: folder, encoding: 'utf8', env });
    return { tool, status, output: `${stdout}${stderr}` };
  });
}

test('`npm run lint` runs the format check', () => {
  expect(scripts['lint']).toBe('nx run-many -t lint');
  expect(nx.targets.lint.options.commands).toContain('npm run --silent format:check');
});

test('formatted files pass', () => {
  expect(check().filter(({ status }) => status !== 0)).toEqual([]);
});

test('each unformatted file is refused by name, by one of the tools', () => {
  const bad: [string, string][] = [
    ['bad.ts', 'export const  word = "a"\n'],
    ['bad.cu', 'int bad( ) {return 1;}\n'],
    ['bad.py', 'word = "a";\n'],
    ['unused.py', 'import json\n'],
    ['bad.md', `# Bad\n\n${'A sentence. '.repeat(20)}\n`],
    ['link.md', `# Link\n\nA [link](${'x'.repeat(20)} y)\n\n### Skips a level`],
  ];
  for (const [name, text] of bad) writeFileSync(join(folder, name), text);
  const said = check();
  for (const [name] of bad) rmSync(join(folder, name));
  expect(TOOLS.length).toBe(4);
  expect(said.filter(({ status }) => status === 0)).toEqual([]);
  const output = said.map((each) => each.output).join('\n');
  expect(bad.map(([name]) => name).filter((name) => !output.includes(name))).toEqual([]);
  // No other file is named.
  expect(output).not.toMatch(/\bgood\./);
});
