/**
 * The long form of the reliability tests: `npx nx soak test`. Prints the figures and writes them to docs/reliability.md.
 * FLASHCORE_SEED repeats a run; arguments go to vitest, for example a file's name.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Figure } from './campaign.ts';

const ROOT = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'fc-soak-'));
try {
  process.exitCode = run(join(folder, 'figures.jsonl'), process.argv.slice(2));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function run(figuresFile: string, filters: string[]): number {
  const seed = process.env['FLASHCORE_SEED'] ?? String(Math.floor(Math.random() * 2 ** 31));
  const env = { ...process.env, FLASHCORE_SOAK: '1', FLASHCORE_SEED: seed, FLASHCORE_FIGURES: figuresFile };
  const tests = filters.length > 0 ? filters.map((filter) => `test/reliability/${filter}`) : ['test/reliability'];
  // One file at a time: figures of memory and time are of an otherwise quiet machine.
  const { status } = spawnSync(join(ROOT, 'node_modules/.bin/vitest'), ['run', '--project', 'e2e', '--no-file-parallelism', ...tests], { cwd: ROOT, env, stdio: 'inherit' });
  const figures = existsSync(figuresFile) ? readFileSync(figuresFile, 'utf8').trim().split('\n').map((line) => JSON.parse(line) as Figure) : [];
  for (const { what, value } of figures) process.stdout.write(`${what}: ${value}\n`);
  process.stdout.write(`seed ${seed}\n`);
  // Part of the tests, or failures, make no report.
  if (status === 0 && filters.length === 0) writeFileSync(join(ROOT, 'docs/reliability.md'), report(figures, seed));
  return status ?? 1;
}

function report(figures: Figure[], seed: string): string {
  const rows = figures.map(({ promise, what, value }) => `| ${promise} | ${what} | ${value} |`);
  return [
    '# What the reliability tests found',
    '',
    `Written by \`npx nx soak test\` on ${new Date().toISOString().slice(0, 10)}: ${availableParallelism()} processors (${cpus()[0]?.model ?? 'unknown'}), Node ${process.versions.node}, seed ${seed}.`,
    'The tests are in [test/reliability](../test/reliability); `npm test` runs the same with fewer rounds.',
    '',
    '| promise | test | found |',
    '| --- | --- | --- |',
    ...rows.toSorted(),
    '',
  ].join('\n');
}
