import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { withinDeadline } from '@flashcore/shared/text';
import type { CompileOptions, CompileUnit } from './compile-unit.ts';
import { runProgram } from '../sandbox/run.ts';
import { withHeaderFolders } from './header-trees.ts';
import { atPriority } from './priority.ts';
import { READS_FILE, shownPath } from './source-snapshot.ts';
import { readSourceText } from './source-text.ts';

const OUTPUT = 'preprocessed.ii';
const LIMIT_MS = 60_000;
const READ_LIMIT_MS = 10_000;
const MAX_BYTES = 128 * 1024 ** 2;

/**
 * Without a sandbox: looks in the preprocessed source for assembly that reads a file of the host, and returns a
 * compiler's message about it; undefined if none is found. Directives that the assembler itself composes (.macro) are
 * not found.
 */
export async function readsHostFile(
  unit: CompileUnit,
  { folder, signal, aside }: CompileOptions & { folder: string },
): Promise<string | undefined> {
  const command = unit.files.some(({ path }) => path.startsWith('kernel/')) ? preprocessing(unit) : undefined;
  if (!command) return undefined;
  const [program, args] = atPriority(unit.compiler.path, withHeaderFolders(command, unit.headers), { aside });
  const end = await runProgram(program, args, { cwd: folder, limitMs: LIMIT_MS, signal });
  // If preprocessing fails, the compile reports the error.
  if (end.exitCode !== 0) return undefined;
  const path = join(folder, OUTPUT);
  const bytes = readFileSync(path);
  rmSync(path);
  if (bytes.length > MAX_BYTES)
    return `kernel.cu:1:1: error: the preprocessed source is larger than ${MAX_BYTES} bytes`;
  return withinDeadline(READ_LIMIT_MS, () => refusal(bytes.toString('utf8')));
}

/** The first command of a compilation, changed to only preprocess. */
function preprocessing({ stages }: CompileUnit): string[] | undefined {
  const args = stages[0]?.[0]?.arguments ?? [];
  const output = args.indexOf('-o');
  const mode = args.findIndex((arg) => arg === '-c' || arg === '-cubin' || arg === '-S');
  if (output < 0 || mode < 0) return undefined;
  return args
    .with(output + 1, OUTPUT)
    .with(mode, '-E')
    .filter((arg, index) => arg !== '--keep' && arg !== '--keep-dir' && args[index - 1] !== '--keep-dir');
}

function refusal(text: string): string | undefined {
  const { code, strings } = readSourceText(text);
  const found = strings.find((each) => READS_FILE.test(each.text));
  if (!found) return undefined;
  // A line marker such as "# 12 \"kernel/k.cu\"" gives the place in the source.
  const marker = code.lastIndexOf('\n# ', found.index);
  const [, line = '1', file = 'kernel.cu'] = /^# (\d+) "([^"\n]*)"/.exec(code.slice(marker + 1, marker + 500)) ?? [];
  const from = code.indexOf('\n', marker + 1);
  const below = code.slice(from + 1, found.index).split('\n').length - 1;
  return `${shownPath(file)}:${Number(line) + below}:1: error: .incbin and .include are not allowed: there is no box here that would hide the files of the host`;
}
