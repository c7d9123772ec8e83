/**
 * Runs Ruff over the repository's Python files (listed by git): `node tools/format-python.ts` writes. `--check` fails
 * on a file that is not formatted or in which Ruff's linter finds something, and names the file.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { PositionEncoding, Workspace, type Diagnostic } from '@astral-sh/ruff-wasm-nodejs';

const ruff = new Workspace({ 'line-length': 120, lint: { select: ['F', 'E7'] } }, PositionEncoding.Utf16);
// lab/results keeps programs exactly as they were run.
const files = execFileSync('git', ['ls-files', '*.py', ':!lab/results'], { encoding: 'utf8' })
  .split('\n')
  .filter(Boolean);
const check = process.argv.includes('--check');

for (const file of files) {
  const source = readFileSync(file, 'utf8');
  const formatted = ruff.format(source);
  if (!check) writeFileSync(file, formatted);
  else if (formatted !== source) refuse(`${file}: not formatted; run npm run format`);
  for (const { code, message, start_location: at } of ruff.check(source) as Diagnostic[])
    refuse(`${file}:${at.row}:${at.column}: ${code ?? 'syntax'} ${message}`);
}

function refuse(line: string): void {
  console.error(line);
  process.exitCode = 1;
}
