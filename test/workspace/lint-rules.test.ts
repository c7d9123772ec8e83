/** Code that `npm run lint` refuses: imports that ARCHITECTURE.md forbids, and code that is hard to read. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ESLint, type Linter } from 'eslint';
import tseslint from 'typescript-eslint';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkTable } from '@flashcore/tools/import-rooms';

const ROOT = join(import.meta.dirname, '../..');
const bin = (name: string): string => join(ROOT, 'node_modules/.bin', name);

const NEW_ROOM = 'apps/runner/src/a-new-room';
const ROOMS = 'flashcore/import-rooms';
const IMPORTS = '@typescript-eslint/no-restricted-imports';
const PROBES: Probe[] = [
  { folder: 'libs/shared/src', imports: '@flashcore/runner/testing', errors: ['@nx/enforce-module-boundaries'] },
  { folder: 'apps/tui/src', imports: '@flashcore/runner/testing', errors: ['@nx/enforce-module-boundaries'] },
  // The laboratory: nothing outside it may import it.
  ...['apps/runner/src', 'apps/runner/worker', 'apps/tui/src', 'libs/shared/src', 'libs/emulator/tests', 'tools'].map(
    (folder) => ({
      folder,
      name: 'laboratory',
      imports: '@flashcore/lab/tables/results.ts',
      errors: ['@nx/enforce-module-boundaries'],
    }),
  ),
  {
    folder: 'test/ladder',
    name: 'laboratory',
    imports: '@flashcore/lab/tables/results.ts',
    errors: ['@nx/enforce-module-boundaries'],
  },
  { folder: 'lab/tables', imports: '../measure/device.ts', errors: [ROOMS] },
  { folder: 'lab/measure', imports: '../tables/results.ts', errors: [] },
  { folder: 'apps/runner/src/store', imports: '../jobs/job-context.ts', errors: [ROOMS] },
  { folder: 'apps/runner/src/rpc', imports: '../experiment/planner.ts', errors: [ROOMS] },
  { folder: 'apps/runner/src/sdpa', imports: '../profile/counters.ts', errors: [ROOMS] },
  // The table in eslint.config.mjs does not allow this import.
  { folder: 'apps/runner/src/findings', imports: '../runner.ts', errors: [ROOMS] },
  { folder: 'apps/runner/src/phases', imports: '../../worker/driver/cuda-error.ts', errors: [ROOMS] },
  { folder: NEW_ROOM, imports: '../store/database.ts', errors: [ROOMS] },
  { folder: 'apps/runner/worker', imports: '../src/jobs/job-context.ts', errors: [ROOMS] },
  { folder: 'apps/runner/worker/driver', imports: '../../src/jobs/job-context.ts', errors: [ROOMS] },
  { folder: 'apps/tui/src/state', imports: '../screens/pane/view.ts', errors: [ROOMS] },
  { folder: 'apps/tui/src/commands', imports: '../components/screen.tsx', errors: [ROOMS] },
  { folder: 'test/support', imports: '../reliability/cut-proxy.ts', errors: [ROOMS] },
  { folder: 'tools/lint', imports: '../terminal.ts', errors: [ROOMS] },
  { folder: 'libs/shared/src/text', imports: '../contract/errors.ts', errors: [ROOMS] },
  // Two files that import each other, although only types.
  { folder: 'apps/runner/src/spec', name: 'circle-a', imports: './circle-b.ts', errors: [ROOMS] },
  { folder: 'apps/runner/src/spec', name: 'circle-b', imports: './circle-a.ts', errors: [ROOMS] },
  // Only the sandbox and the files listed as STARTS_PROGRAMS may start programs.
  { folder: 'apps/runner/src/profile', imports: 'node:child_process', errors: [IMPORTS] },
  { folder: 'apps/runner/src/access', imports: 'child_process', errors: [IMPORTS] },
  { folder: 'apps/runner/worker/verify', imports: 'node:child_process', errors: [IMPORTS] },
  { folder: 'apps/tui/src/search', imports: 'node:child_process', errors: [IMPORTS] },
  { folder: 'libs/shared/src/files', imports: 'node:child_process', errors: [IMPORTS] },
  { folder: 'apps/runner/src/sandbox', imports: 'node:child_process', errors: [] },
  { folder: 'apps/runner/src/jobs', imports: '@flashcore/shared/contract', errors: [] },
  { folder: 'apps/runner/src/phases', name: 'allowed', imports: '../spec/job-spec.ts', errors: [] },
];
interface Probe {
  folder: string;
  name?: string;
  imports: string;
  errors: string[];
}
const probeFile = ({ folder, name = 'import-rule-probe' }: Probe): string => join(ROOT, folder, `${name}.ts`);

const LONG = 'a'.repeat(120);
const SHAPES: ShapeProbe[] = [
  { name: 'nested-ternary', text: "export const f = (a: number) => (a > 1 ? 'b' : a > 0 ? 'c' : 'd');" },
  { name: 'max-len', text: `// ${LONG}` },
  { name: 'max-len-signature', text: `export function f(_${LONG}: number): void {}` },
  { name: 'parameter-type', text: 'export const f = (of: { a: number; b: number; c: number }) => of.a;' },
  {
    name: 'parameter-pattern',
    text: 'export function f({ a }: { a: number; b: number; c: number }): number { return a; }',
  },
  { name: 'parameter-default', text: 'export function f(of: { a?: 1; b?: 1; c?: 1 } = {}): unknown { return of; }' },
  { name: 'parameter-of-method', text: 'export class A { constructor(readonly of: { a: 1; b: 1; c: 1 }) {} }' },
  { name: 'parameter-of-type', text: 'export type F = (of: readonly { a: 1; b: 1; c: 1 }[]) => void;' },
  { name: 'digest-claimed', text: 'type Sha256 = string & { is: 1 };\nexport const f = (of: string) => of as Sha256;' },
  { name: 'path-of-url', text: "export const f = new URL('..', import.meta.url).pathname;" },
  { name: 'path-of-url-in-parts', text: 'export const { pathname } = new URL(import.meta.url);' },
  { name: 'path-of-url-by-hand', text: 'export const f = import.meta.url.slice(7);' },
  { name: 'path-to-url-by-hand', text: 'export const f = (file: string): string => `file://${file}`;' },
  { name: 'skip-without-a-program', text: "test.skipIf(!ALL_TESTS)('is skipped', () => undefined);" },
  {
    name: 'dictionary-read',
    folder: 'apps/tui/src/screens',
    text: 'export const f = (of: Record<string, number>, key: string) => of[key];',
  },
  {
    name: 'dictionary-destructured',
    folder: 'apps/tui/src/state',
    text: 'export const f = ({ of }: { of: Record<string, number> }, key: string) => {\n  const { [key]: value, ...others } = of;\n  return [value, others];\n};',
  },
  {
    name: 'dictionary-has',
    folder: 'libs/shared/src/kernels',
    text: 'export const f = (of: Record<string, number>, key: string) => key in of;',
  },
  {
    name: 'dictionary-assign',
    folder: 'apps/runner/worker/verify',
    text: 'export const f = (to: object, of: Record<string, number>) => Object.assign(to, of);',
  },
  {
    name: 'dictionary-write',
    folder: 'apps/runner/src/spec',
    text: 'export const f = (of: Record<string, number>, key: string): void => void (of[key] = 1);',
  },
  { name: 'fixed-wait.test', text: 'await new Promise((resolve) => setTimeout(resolve, 5));' },
  { name: 'fixed-wait-renamed.test', text: "import { setTimeout as a } from 'node:timers/promises';\nawait a(5);" },
  { name: 'no-wait.test', text: 'export const f = (pty: { pause(): void }) => pty.pause();' },
  { name: 'nothing', text: `export const f = (of: { a: 1; b: 1 }) => [of, '${LONG}'];` },
];
interface ShapeProbe {
  /** The rule that the text breaks, or the part of a rule. */
  name: string;
  /** The folder to put the file into; default: tools. */
  folder?: string;
  text: string;
}
const SHAPE_RULES: readonly (readonly [string, string])[] = [
  ['nested-ternary', 'no-nested-ternary'],
  ['max-len', 'max-len'],
  ['parameter', 'no-restricted-syntax'],
  ['digest-claimed', 'no-restricted-syntax'],
  ['path-', 'no-restricted-syntax'],
  ['skip-', 'no-restricted-syntax'],
  ['fixed-wait', 'flashcore/no-fixed-wait'],
  ['dictionary', 'flashcore/no-plain-dictionary'],
];
const shapeFile = ({ name, folder = 'tools' }: ShapeProbe): string => join(ROOT, folder, `line-rule-probe-${name}.ts`);
let errorsByFile = new Map<string, string[]>();
// nx keeps this test's project graph in a separate folder. A graph that is made while the probes exist has a cycle of
// projects, and other tests run nx too.
const graphFolder = mkdtempSync(join(tmpdir(), 'fc-graph-'));
process.env['NX_WORKSPACE_DATA_DIRECTORY'] = graphFolder;

beforeAll(async () => {
  // Without nx's project graph @nx/enforce-module-boundaries reports nothing. `npm run lint` always has the graph,
  // because it runs through nx.
  execFileSync(bin('nx'), ['show', 'projects'], { cwd: ROOT, stdio: 'ignore' });
  for (const probe of PROBES) {
    mkdirSync(join(ROOT, probe.folder), { recursive: true });
    writeFileSync(probeFile(probe), `import {} from '${probe.imports}';\n`);
  }
  for (const probe of SHAPES) writeFileSync(shapeFile(probe), `${probe.text}\n`);
  const [typed, untyped] = [true, false].map((wanted) =>
    SHAPES.filter(({ name }) => name.startsWith('dictionary') === wanted).map(shapeFile),
  ) as [string[], string[]];
  const reports = [
    ...(await lint([...PROBES.map(probeFile), ...untyped])),
    ...(await new ESLint({ cwd: ROOT }).lintFiles(typed)),
  ];
  errorsByFile = new Map(
    reports.map(({ filePath, messages }) => [
      filePath,
      messages.filter(({ severity }) => severity === 2).map(({ ruleId }) => String(ruleId)),
    ]),
  );
}, 180_000);

afterAll(() => {
  for (const file of [...PROBES.map(probeFile), ...SHAPES.map(shapeFile)]) rmSync(file, { force: true });
  rmSync(join(ROOT, NEW_ROOM), { recursive: true, force: true });
  rmSync(graphFolder, { recursive: true, force: true });
});

test.each(PROBES)('a file in $folder that imports $imports gets the lint errors $errors', (probe) => {
  expect(errorsByFile.get(probeFile(probe))).toEqual(probe.errors);
});

test.each(SHAPES)('the sample $name breaks exactly the lint rule that it is written for', (probe) => {
  const rule = SHAPE_RULES.find(([name]) => probe.name.startsWith(name))?.[1];
  expect(errorsByFile.get(shapeFile(probe))).toEqual(rule === undefined ? [] : [rule]);
});

test('at most one line in a hundred is longer than 120 columns', () => {
  const files = execFileSync('git', ['ls-files', '*.ts', '*.tsx', ':!*/generated/*'], { cwd: ROOT, encoding: 'utf8' });
  const lines = files
    .split('\n')
    .filter((file) => file !== '' && existsSync(join(ROOT, file)))
    .flatMap((file) => readFileSync(join(ROOT, file), 'utf8').split('\n'));
  expect(lines.filter((line) => line.length > 120).length).toBeLessThan(lines.length / 100);
});

test('a table is refused if rooms import each other or a room is unknown', () => {
  expect(() => checkTable({ jobs: ['store'], store: ['jobs'] })).toThrow('the rooms jobs, store import each other');
  expect(() => checkTable({ jobs: ['stor'] })).toThrow('jobs may import from stor, which is no room');
});

/** Lints with the repository's rules, except those that need types: these take most of the time. */
function lint(files: string[]): Promise<ESLint.LintResult[]> {
  const overrideConfig = [
    tseslint.configs.disableTypeChecked as Linter.Config,
    { rules: { 'flashcore/no-plain-dictionary': 'off' } } satisfies Linter.Config,
  ];
  return new ESLint({ cwd: ROOT, overrideConfig }).lintFiles(files);
}
