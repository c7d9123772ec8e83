/** The import rules of ARCHITECTURE.md are enforced: an import that they forbid fails `npm run lint`. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeAll, expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const created: string[] = [];

// Without nx's project graph at hand @nx/enforce-module-boundaries says nothing at all; `npm run lint`, which runs through nx, always has it.
beforeAll(() => {
  execFileSync(join(ROOT, 'node_modules/.bin/nx'), ['show', 'projects'], { cwd: ROOT, stdio: 'ignore' });
});

afterEach(() => {
  for (const path of created.splice(0)) rmSync(path, { recursive: true });
});

test.each([
  ['libs/shared/src', '@flashcore/runner/testing', '@nx/enforce-module-boundaries'],
  ['apps/tui/src', '@flashcore/runner/testing', '@nx/enforce-module-boundaries'],
  ['apps/runner/src/store', '../jobs/job-context.ts', 'import-x/no-restricted-paths'],
  ['apps/runner/worker', '../src/jobs/job-context.ts', 'import-x/no-restricted-paths'],
])('a file in %s must not import %s', (folder, specifier, rule) => {
  expect(lintErrors(folder, specifier)).toContain(rule);
}, 60_000);

test('an allowed import passes', () => {
  expect(lintErrors('apps/runner/src/jobs', '@flashcore/shared')).toEqual([]);
}, 60_000);

/** Rule names of the errors for a file of `folder` that imports `specifier`; run through nx's project graph as `npm run lint` does. */
function lintErrors(folder: string, specifier: string): string[] {
  // A folder of its own: the file must not appear in a lint run of the same tree at the same time.
  const file = join(ROOT, folder, `import-rule-probe-${process.pid}`.replaceAll(/\W/g, '-') + '.ts');
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `import '${specifier}';\n`);
  created.push(file);
  const output = runEslint(file);
  const [report] = JSON.parse(output) as { messages: { ruleId: string; severity: number }[] }[];
  return report!.messages.filter((message) => message.severity === 2).map((message) => message.ruleId);
}

function runEslint(file: string): string {
  try {
    return execFileSync(join(ROOT, 'node_modules/.bin/eslint'), ['--format', 'json', file], { cwd: ROOT, encoding: 'utf8' });
  } catch (error) {
    const { status, stdout } = error as { status: number | null; stdout: string };
    if (status !== 1) throw error; // 1: lint errors were found, which is what is asked for here
    return stdout;
  }
}
