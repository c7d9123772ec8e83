// Imports the definitions of FlashInfer-Bench that a commit of its repository has, and prints what became of each.
//   node examples/interop/import-flashinfer-bench.mjs CLONE COMMIT [FOLDER]
// CLONE is a clone of flashinfer-ai/flashinfer-bench. ecafa9c2 is the last commit with its data set. Needs a build of
// fa-tui (npm run build), and neither Python nor a GPU. Without FOLDER the problems are removed afterwards.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const FA_TUI = join(import.meta.dirname, '../../apps/tui/bin/fa-tui.js');
const DATA_SET = 'flashinfer_trace';
/** What its pages call attention: all else is counted by its kind. */
const ATTENTION = ['dsa_paged', 'gdn', 'gqa_paged', 'gqa_ragged', 'mla_paged', 'mla_ragged'];

const [clone, commit, kept] = process.argv.slice(2);
if (!clone || !commit) {
  console.error('usage: node examples/interop/import-flashinfer-bench.mjs CLONE COMMIT [FOLDER]');
  process.exit(2);
}
const work = mkdtempSync(join(tmpdir(), 'import-'));
try {
  const full = execFileSync('git', ['-C', clone, 'rev-parse', `${commit}^{commit}`], { encoding: 'utf8' }).trim();
  const archive = execFileSync('git', ['-C', clone, 'archive', full, DATA_SET], { maxBuffer: 2 ** 28 });
  execFileSync('tar', ['-x', '-C', work], { input: archive });
  const to = kept ?? join(work, 'problems');
  mkdirSync(to, { recursive: true });
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [FA_TUI, 'problem', 'import', join(work, DATA_SET), '--to', to, '--json'],
    { encoding: 'utf8', maxBuffer: 2 ** 26 },
  );
  if (stdout === '') throw new Error(`fa-tui ended with ${status}: ${stderr}`);
  print(JSON.parse(stdout).definitions, full);
} finally {
  rmSync(work, { recursive: true });
}

function print(definitions, full) {
  const of = (wanted) => definitions.filter(({ opType }) => ATTENTION.includes(opType) === wanted);
  const [attention, others] = [of(true), of(false)];
  const count = (list) => `${list.filter(({ folder }) => folder !== undefined).length} of ${list.length}`;
  console.log(
    `flashinfer-ai/flashinfer-bench ${full.slice(0, 8)}, ${DATA_SET}: ${count(attention)} definitions of attention were imported, and ${count(others)} others.\n`,
  );
  console.log('| definition | imported | workloads that are cases |\n| --- | --- | --- |');
  for (const { name, folder, workloads, reason } of attention)
    console.log(`| ${name} | ${folder ? 'yes' : `no: ${cell(reason)}`} | ${folder ? casesOf(workloads) : ''} |`);
  const kinds = Map.groupBy(others, ({ opType }) => opType);
  for (const [kind, list] of kinds) console.log(`| ${list.length} of ${kind} | no: ${cell(list[0].reason)} | |`);
}

function casesOf({ taken, found }) {
  return found === 0 ? 'there are none' : `${taken} of ${found}`;
}

/** Without the file, and as a cell of Markdown. */
function cell(reason) {
  return reason.replace(/^\S+\.json(:\d+)?: /, '').replaceAll('|', String.raw`\|`);
}
