/** Imports problems that are Python programs. The programs run only in a sandbox, which a runner's program sets up. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readForeignText } from '@flashcore/shared/files';
import { installedProblems, type ProblemProgram } from '@flashcore/shared/kernels';
import { plainLine } from '@flashcore/shared/text';
import { NotImportable } from './attention-forms.ts';
import { idOf } from './definition.ts';
import { readDescription } from './described-program.ts';
import { filesAt, newFolder, reasonOf, requirePlace, type Imported } from './import-problems.ts';
import { programFiles } from './program-files.ts';
import { UsageError } from '../exit-code.ts';

interface ProgramPlan {
  /** A program, or a folder of them. */
  readonly from: string;
  readonly form: ProblemProgram;
  /** The parent of the new problem folders. */
  readonly to: string;
  /** Runs files in a sandbox and returns a line for each, in this order. */
  readonly describe: (files: readonly string[]) => Promise<string>;
}

/** A runner takes files of a problem of at most 64 KiB, and the import adds a function. */
const MOST_SOURCE_BYTES = 60 * 1024;
/** A function that each of KernelBench's problems defines; other Python files of a checkout are left out. */
const DEFINES = /^def get_init_inputs\b/m;

interface Candidate {
  readonly file: string;
  readonly shown: string;
  /** Undefined if the file can't be read. */
  readonly source?: string;
  readonly reason?: string;
}

/** Replaces no existing file and follows no link. Errors: UsageError for unusable paths, and those of `describe`. */
export async function importPrograms({ from, form, to, describe }: ProgramPlan): Promise<Imported[]> {
  const candidates = filesAt(from)
    .filter((file) => file.endsWith('.py'))
    .map((file) => readCandidate(file, from))
    .filter(({ source }) => source === undefined || DEFINES.test(source));
  if (candidates.length === 0)
    throw new UsageError(
      `${from}: has no *.py with get_init_inputs: give a problem of KernelBench, or a folder of them`,
    );
  requirePlace(to);
  const readable = candidates.filter(({ source }) => source !== undefined);
  const lines = await described(readable, describe);
  const taken = new Set(installedProblems());
  return candidates.map((candidate) =>
    importOne(candidate, { form, to, taken, line: lines[readable.indexOf(candidate)] }),
  );
}

function readCandidate(file: string, from: string): Candidate {
  const shown = plainLine(path.relative(from, file) || path.basename(file));
  try {
    return { file, shown, source: readForeignText(file, MOST_SOURCE_BYTES) };
  } catch (error) {
    return { file, shown, reason: plainLine(reasonOf(error, shown)) };
  }
}

/** The sandbox sees copies, so that a program is described by the text that becomes its reference. */
async function described(readable: readonly Candidate[], describe: ProgramPlan['describe']): Promise<string[]> {
  if (readable.length === 0) return [];
  const folder = mkdtempSync(path.join(tmpdir(), 'flashcore-import-'));
  try {
    const copies = readable.map(({ source }, index) => {
      const copy = path.join(folder, `${index}.py`);
      writeFileSync(copy, source!);
      return copy;
    });
    return (await describe(copies)).split('\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

interface Surroundings extends Pick<ProgramPlan, 'form' | 'to'> {
  /** Ids of existing problems. */
  readonly taken: Set<string>;
  readonly line: string | undefined;
}

function importOne({ file, shown, source, reason }: Candidate, { form, to, taken, line }: Surroundings): Imported {
  const about = { file: shown, name: path.basename(shown, '.py'), opType: form };
  if (source === undefined) return { ...about, reason: reason! };
  try {
    // KernelBench numbers the problems of each level.
    const id = idOf(`${path.basename(path.dirname(path.resolve(file)))}_${about.name}`);
    if (id === undefined) throw new NotImportable('the name: wanted a name with a letter: give the file another');
    const files = programFiles({ id, file: shown, source, described: readDescription(line) });
    if (taken.has(id)) throw new NotImportable(`the name: a problem has the id ${id} already: give the file another`);
    const folder = path.join(to, id);
    newFolder(folder, files);
    taken.add(id);
    return { ...about, folder };
  } catch (error) {
    return { ...about, reason: plainLine(reasonOf(error, shown).split('\n', 1)[0]!) };
  }
}
