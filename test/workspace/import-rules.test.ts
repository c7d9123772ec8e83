/** The import rules of ARCHITECTURE.md are enforced: an import that they forbid fails `npm run lint`. */
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const bin = (name: string): string => join(ROOT, 'node_modules/.bin', name);

const PROBES = [
  { folder: 'libs/shared/src', imports: '@flashcore/runner/testing', errors: ['@nx/enforce-module-boundaries'] },
  { folder: 'apps/tui/src', imports: '@flashcore/runner/testing', errors: ['@nx/enforce-module-boundaries'] },
  { folder: 'apps/runner/src/store', imports: '../jobs/job-context.ts', errors: ['import-x/no-restricted-paths'] },
  { folder: 'apps/runner/src/rpc', imports: '../experiment/planner.ts', errors: ['import-x/no-restricted-paths'] },
  { folder: 'apps/runner/src/sdpa', imports: '../profile/metrics.ts', errors: ['import-x/no-restricted-paths'] },
  { folder: 'apps/runner/worker', imports: '../src/jobs/job-context.ts', errors: ['import-x/no-restricted-paths'] },
  { folder: 'apps/runner/src/jobs', imports: '@flashcore/shared/contract', errors: [] },
];
const probeFile = (folder: string): string => join(ROOT, folder, 'import-rule-probe.ts');
let errorsByFile = new Map<string, string[]>();

beforeAll(() => {
  // Without nx's project graph at hand @nx/enforce-module-boundaries says nothing at all; `npm run lint`, which runs
  // through nx, always has it.
  execFileSync(bin('nx'), ['show', 'projects'], { cwd: ROOT, stdio: 'ignore' });
  for (const { folder, imports } of PROBES) writeFileSync(probeFile(folder), `import '${imports}';\n`);
  const reports = JSON.parse(runEslint(PROBES.map(({ folder }) => probeFile(folder)))) as {
    filePath: string;
    messages: { ruleId: string; severity: number }[];
  }[];
  errorsByFile = new Map(
    reports.map(({ filePath, messages }) => [
      filePath,
      messages.filter(({ severity }) => severity === 2).map(({ ruleId }) => ruleId),
    ]),
  );
}, 180_000);

afterAll(() => {
  for (const { folder } of PROBES) rmSync(probeFile(folder), { force: true });
});

test.each(PROBES)('a file in $folder that imports $imports has the errors $errors', ({ folder, errors }) => {
  expect(errorsByFile.get(probeFile(folder))).toEqual(errors);
});

function runEslint(files: string[]): string {
  try {
    return execFileSync(bin('eslint'), ['--format', 'json', ...files], { cwd: ROOT, encoding: 'utf8' });
  } catch (error) {
    const { status, stdout } = error as { status: number | null; stdout: string };
    if (status !== 1) throw error; // 1: lint errors were found, which is what is asked for here
    return stdout;
  }
}
