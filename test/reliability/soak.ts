/**
 * `npx nx soak test`: the long form of the reliability tests. Prints the figures, stores them in docs/reliability.json,
 * and makes docs/reliability.md from it. FLASHCORE_SEED repeats a run. Arguments name the files to run, as in `node
 * test/reliability/soak.ts kill streams`. --test TEXT runs only the tests with this text in their names. --minutes is
 * how long unread streams are opened: two hours by default.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Figure } from './campaign.ts';
import { FIGURES_PATH, PAGE_PATH, ROOT, readRun, reliabilityPage, type SoakRun } from './page.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { minutes: { type: 'string', default: '120' }, test: { type: 'string', default: '' } },
});
if (!(Number(values.minutes) > 0)) throw new Error(`--minutes ${values.minutes}: must be a number above 0`);
const folder = mkdtempSync(join(tmpdir(), 'fc-soak-'));
try {
  process.exitCode = await run(join(folder, 'figures.jsonl'), positionals);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function run(figuresFile: string, filters: string[]): Promise<number> {
  const seed = process.env['FLASHCORE_SEED'] ?? String(Math.floor(Math.random() * 2 ** 31));
  const env = {
    ...process.env,
    FLASHCORE_SOAK: '1',
    FLASHCORE_TESTS: 'all',
    FLASHCORE_SEED: seed,
    FLASHCORE_MINUTES: values.minutes,
    FLASHCORE_FIGURES: figuresFile,
  };
  const tests = filters.length > 0 ? filters.map((filter) => `test/reliability/${filter}`) : ['test/reliability'];
  // Runs one file at a time, because figures of memory and time need an otherwise idle machine.
  const flags = ['run', '--project', 'test', '--no-file-parallelism', '--testNamePattern', values.test];
  const { status } = spawnSync(process.execPath, [join(ROOT, 'node_modules/vitest/vitest.mjs'), ...flags, ...tests], {
    cwd: ROOT,
    env,
    stdio: 'inherit',
  });
  const figures = existsSync(figuresFile)
    ? readFileSync(figuresFile, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Figure)
    : [];
  for (const { what, value } of figures) process.stdout.write(`${what}: ${value}\n`);
  process.stdout.write(`seed ${seed}\n`);
  // A failed run stores no report.
  if (status === 0) await store(figures);
  return status ?? 1;
}

/** Stores the figures. A partial run replaces only the figures of its own tests. */
async function store(figures: readonly Figure[]): Promise<void> {
  const machine = `${availableParallelism()} processors (${cpus()[0]?.model.trim() ?? 'unknown'}), ${process.platform}, Node ${process.versions.node}`;
  const before = readRun();
  const kept = before?.figures.filter(({ what }) => !figures.some((figure) => figure.what === what)) ?? [];
  const date = new Date().toISOString().slice(0, 10);
  const all = [...kept, ...figures.map((figure) => ({ ...figure, date, machine }))].sort((a, b) =>
    `${a.promise} ${a.what}` < `${b.promise} ${b.what}` ? -1 : 1,
  );
  const stored: SoakRun = { figures: all };
  writeFileSync(FIGURES_PATH, `${JSON.stringify(stored, null, 2)}\n`);
  writeFileSync(PAGE_PATH, await reliabilityPage(stored));
}
