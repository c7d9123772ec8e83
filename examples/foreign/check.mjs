// Verifies kernels of public repositories, unedited, on the emulator, and prints a table of what became of them.
//   node examples/foreign/check.mjs CHECKOUTS [KERNEL…]
// CHECKOUTS has a clone of each repository of repositories.yaml, by its name there; --clone makes those that are not
// there. Sources are read at the commit that repositories.yaml names, whatever is checked out.
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parse } from 'yaml';

const HERE = import.meta.dirname;
const FA_TUI = join(HERE, '../../apps/tui/bin/fa-tui.js');
/** A few tiles, with a head dimension that the kernel takes where it is not this one. */
const SHAPES = ['1x2x128x64', '1x2x128x128'];

const [checkouts, ...wanted] = process.argv.slice(2).filter((argument) => argument !== '--clone');
if (!checkouts) {
  console.error('usage: node examples/foreign/check.mjs CHECKOUTS [--clone] [KERNEL…]');
  process.exit(2);
}
const repositories = parse(readFileSync(join(HERE, 'repositories.yaml'), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'foreign-'));
const rows = [];
try {
  for (const [name, { url, commit, kernels }] of Object.entries(repositories))
    for (const [kernel, files] of Object.entries(kernels)) {
      if (wanted.length > 0 && !wanted.includes(kernel)) continue;
      const clone = cloneOf(name, url);
      const row = { kernel, ...verify(assemble(kernel, { clone, commit, files })) };
      console.error(`${kernel}: ${row.verdict}`);
      rows.push(row);
    }
} finally {
  rmSync(folder, { recursive: true });
}
console.log('| kernel | verdict | largest error | race check | seconds |\n| --- | --- | --- | --- | --- |');
for (const { kernel, verdict, error, races, seconds } of rows)
  console.log(`| ${kernel} | ${verdict} | ${error} | ${races} | ${seconds} |`);
process.exitCode = rows.every(({ passed }) => passed) ? 0 : 1;

function cloneOf(name, url) {
  const clone = join(checkouts, name);
  if (!existsSync(clone) && process.argv.includes('--clone'))
    execFileSync('git', ['clone', '--quiet', '--filter=blob:none', '--no-checkout', url, clone], { stdio: 'inherit' });
  if (!existsSync(clone)) throw new Error(`${clone} is not there: clone ${url}, or give --clone`);
  return clone;
}

/** The kernel's folder: our kernel.yaml next to the repository's files. */
function assemble(kernel, { clone, commit, files }) {
  const path = join(folder, kernel);
  mkdirSync(path);
  copyFileSync(join(HERE, kernel, 'kernel.yaml'), join(path, 'kernel.yaml'));
  for (const file of files)
    writeFileSync(
      join(path, basename(file)),
      execFileSync('git', ['-C', clone, 'show', `${commit}:${file}`], { maxBuffer: 64 * 2 ** 20 }),
    );
  return path;
}

function verify(path) {
  const started = Date.now();
  const limits = readFileSync(join(path, 'kernel.yaml'), 'utf8');
  const shape = SHAPES[limits.includes('D == 128') ? 1 : 0];
  const command = [FA_TUI, 'verify', path, '--device', 'emulator', '--seeds', '1', '--shape', shape];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, {
    encoding: 'utf8',
    maxBuffer: 64 * 2 ** 20,
    env: { ...process.env, NO_COLOR: '1' },
  });
  const text = stdout + stderr;
  return {
    passed: status === 0,
    verdict: /^([A-Z][A-Z ]+?) {2}jobs\//m.exec(text)?.[1] ?? `exit status ${status}`,
    error: /max ([\d.e+-]+)/.exec(text)?.[1] ?? '-',
    races: /every access to memory watched, (no race found)/.exec(text)?.[1] ?? (/RACE/.test(text) ? 'RACE' : '-'),
    seconds: ((Date.now() - started) / 1000).toFixed(0),
  };
}
