// Imports the definitions that FlashInfer-Bench and FlashInfer have in their repositories, and prints the result
// for each as a Markdown table.
//   node examples/interop/import-flashinfer-bench.mjs CLONE COMMIT FOLDER [TO]
// CLONE is a clone of flashinfer-ai/flashinfer-bench, whose last commit with its data set is ecafa9c2 and FOLDER
// flashinfer_trace; or of flashinfer-ai/flashinfer with tests/trace/fi_trace_out. Needs a build of fa-tui (npm run
// build), and neither Python nor a GPU. Without TO the problems are removed afterwards.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const FA_TUI = join(import.meta.dirname, '../../apps/tui/bin/fa-tui.js');
/**
 * The kinds of definitions that FlashInfer-Bench's pages call attention. Of other kinds, definitions that cannot be
 * imported are only counted.
 */
const ATTENTION = ['dsa_paged', 'gdn', 'gqa_paged', 'gqa_ragged', 'mla_paged', 'mla_ragged'];

const [clone, commit, folder, kept] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node examples/interop/import-flashinfer-bench.mjs CLONE COMMIT FOLDER [TO]');
  process.exit(2);
}
const work = mkdtempSync(join(tmpdir(), 'import-'));
try {
  const full = execFileSync('git', ['-C', clone, 'rev-parse', `${commit}^{commit}`], { encoding: 'utf8' }).trim();
  const archive = execFileSync('git', ['-C', clone, 'archive', full, folder], { maxBuffer: 2 ** 28 });
  execFileSync('tar', ['-x', '-C', work], { input: archive });
  const to = kept ?? join(work, 'problems');
  mkdirSync(to, { recursive: true });
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [FA_TUI, 'problem', 'import', join(work, folder), '--to', to, '--json'],
    { encoding: 'utf8', maxBuffer: 2 ** 26 },
  );
  if (stdout === '') throw new Error(`fa-tui ended with ${status}: ${stderr}`);
  print(JSON.parse(stdout).definitions, full);
} finally {
  rmSync(work, { recursive: true });
}

function print(definitions, full) {
  const [attention, others] = [true, false].map((wanted) =>
    definitions.filter(({ opType }) => ATTENTION.includes(opType) === wanted),
  );
  const count = (list) => `${list.filter(isImported).length} of ${list.length}`;
  console.log(
    `${folder} at ${full.slice(0, 8)}: ${count(attention)} definitions of attention are imported, and ${count(others)} others.\n`,
  );
  console.log('| definition | imported | workloads |\n| --- | --- | --- |');
  for (const each of [...attention, ...others.filter(isImported)]) console.log(row(each));
  const reasons = Map.groupBy(
    others.filter((each) => !isImported(each)),
    ({ opType }) => opType,
  );
  for (const [kind, [first, ...more]] of reasons)
    console.log(`| ${more.length + 1} of ${kind || 'no kind that can be read'} | no: ${cell(first.reason)} | |`);
}

function isImported({ reason }) {
  return reason === undefined;
}

function row({ name, workloads, reason }) {
  if (reason !== undefined) return `| ${name} | no: ${cell(reason)} | |`;
  const { taken, found } = workloads;
  return `| ${name} | yes | ${found === 0 ? '' : `${taken} of ${found}`} |`;
}

/** The reason without the file's name, escaped for a cell of a Markdown table. */
function cell(reason) {
  return reason.replace(/^\S+\.json(:\d+)?: /, '').replaceAll('|', String.raw`\|`);
}
