// Imports KernelBench's problems, prints what became of them as Markdown, and runs the kernels of kernelbench/ on
// three.
//   node examples/interop/import-kernelbench.mjs CLONE COMMIT [LEVEL ...]
// CLONE is a clone of ScalingIntelligence/KernelBench, COMMIT for example 423217d9; levels 1 and 2 are the default.
// Needs a build of fa-tui (npm run build), bubblewrap, and a Python with PyTorch, named by FLASHCORE_PYTHON. The
// problems run in a sandbox, on small extents and one processor, for seconds each.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const FA_TUI = join(import.meta.dirname, '../../apps/tui/bin/fa-tui.js');
const KERNELS = join(import.meta.dirname, 'kernelbench');

const [clone, commit, ...given] = process.argv.slice(2);
if (!commit) {
  console.error('usage: node examples/interop/import-kernelbench.mjs CLONE COMMIT [LEVEL ...]');
  process.exit(2);
}
const levels = given.length > 0 ? given : ['1', '2'];
const work = mkdtempSync(join(tmpdir(), 'import-'));
try {
  const full = execFileSync('git', ['-C', clone, 'rev-parse', `${commit}^{commit}`], { encoding: 'utf8' }).trim();
  const folders = levels.map((level) => `KernelBench/level${level}`);
  const archive = execFileSync('git', ['-C', clone, 'archive', full, ...folders], { maxBuffer: 2 ** 28 });
  execFileSync('tar', ['-x', '-C', work], { input: archive });
  const problems = join(work, 'problems');
  const found = folders.map((folder) => imported(join(work, folder), problems));
  console.log(
    `KernelBench at ${full.slice(0, 8)}\n\n| level | imported | reasons for the others |\n| --- | --- | --- |`,
  );
  for (const [index, all] of found.entries()) console.log(row(levels[index], all));
  const repository = join(work, 'repository');
  mkdirSync(repository);
  cpSync(problems, join(repository, 'problems'), { recursive: true });
  writeFileSync(join(repository, 'flashcore.yaml'), 'problems: problems\n');
  for (const kernel of levels.includes('1') ? readdirSync(KERNELS) : []) {
    cpSync(join(KERNELS, kernel), join(repository, kernel), { recursive: true });
    const { status, stdout, stderr } = faTui(['verify', `./${kernel}`, '--seeds', '1'], repository);
    console.log(`\nfa-tui verify ${kernel}: exit status ${status}\n${stdout}${stderr}`);
  }
} finally {
  rmSync(work, { recursive: true });
}

function imported(folder, to) {
  const { stdout, stderr, status } = faTui([
    'problem',
    'import',
    folder,
    '--from',
    'kernelbench',
    '--to',
    to,
    '--json',
  ]);
  if (stdout === '') throw new Error(`fa-tui ended with ${status}: ${stderr}`);
  return JSON.parse(stdout).definitions;
}

function faTui(args, cwd) {
  return spawnSync(process.execPath, [FA_TUI, ...args], { cwd, encoding: 'utf8', maxBuffer: 2 ** 26 });
}

/**
 * The row of a level. Its reasons are sorted by how often each occurs, without the names and numbers of single
 * problems.
 */
function row(level, all) {
  const refused = all.filter(({ reason }) => reason !== undefined);
  const reasons = Object.entries(Object.groupBy(refused, ({ reason }) => reason.replace(/^\S+\.py: /, '')));
  const cells = reasons
    .toSorted(([, a], [, b]) => b.length - a.length)
    .map(([reason, { length }]) => `${length}: ${reason.replaceAll('|', String.raw`\|`)}`);
  return `| ${level} | ${all.length - refused.length} of ${all.length} | ${cells.join('<br>')} |`;
}
