/**
 * Imports a definition or a whole data set. Each definition becomes a problem folder, or is reported with the reason
 * why not.
 */
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, readForeignText, whyUnreadable } from '@flashcore/shared/files';
import { installedProblems } from '@flashcore/shared/kernels';
import { plainLine } from '@flashcore/shared/text';
import { importCases } from './imported-cases.ts';
import { parseDefinition, parseWorkloads, type Definition, type Workload } from './definition.ts';
import { NotImportable, recognize, type RecognizedBy } from './attention-forms.ts';
import { installedForm, installedShapes } from './installed-form.ts';
import { problemFiles } from './problem-files.ts';
import { UsageError } from '../exit-code.ts';

export interface Imported {
  /** Path relative to the given folder. */
  readonly file: string;
  /** Empty if the file is not a definition. */
  readonly name: string;
  readonly opType: string;
  /** The problem's folder. */
  readonly folder?: string;
  /** The installed problem that equals the definition. In this case there is no folder. */
  readonly problem?: string;
  /** A file with the definition's shapes, one per line; undefined if there are no workloads. */
  readonly shapes?: string;
  /** Numbers of workloads found, and of those that became cases. */
  readonly workloads?: { readonly taken: number; readonly found: number };
  /** The dtype to check the problem with. */
  readonly dtype?: string;
  /** The reason why the definition was not imported, with file and key. */
  readonly reason?: string;
}

interface ImportPlan extends RecognizedBy {
  /** A definition, or the folder of a data set. */
  readonly from: string;
  /** The parent of the new problem folders. */
  readonly to: string;
}

/** Limits that no data set exceeds, so that a folder with all of a user's files is refused. */
const MOST_DEPTH = 6;
const MOST_FILES = 4096;
const WORKLOAD_BYTES = 8 * HAND_WRITTEN_BYTES;
/** Extension of Python files. Other benchmarks write their problems as programs in Python. */
const PROGRAMS = '.py';
const TASK = 'task.yml';

/**
 * Reads definitions and workloads and writes problems. It replaces no existing file, follows no link, and runs nothing
 * that it reads. Errors: UsageError for unusable paths.
 */
export function importProblems({ from, to, anyReference }: ImportPlan): Imported[] {
  const source = sourceOf(from);
  requirePlace(to);
  const workloads = new WorkloadFiles(source.workloads);
  const taken = new Set(installedProblems());
  const results = source.definitions.map((file) => importOne(file, { from, to, anyReference, workloads, taken }));
  return [...results, ...source.others];
}

interface Surroundings extends ImportPlan {
  readonly workloads: WorkloadFiles;
  /** Ids that are already in use. */
  readonly taken: Set<string>;
}

function importOne(file: string, { from, to, anyReference, workloads, taken }: Surroundings): Imported {
  const shown = plainLine(path.relative(from, file) || path.basename(file));
  let definition: Definition | undefined;
  const about = () => ({
    file: shown,
    name: plainLine(definition?.name ?? ''),
    opType: plainLine(definition?.opType ?? ''),
  });
  try {
    definition = parseDefinition(readForeignText(file, HAND_WRITTEN_BYTES), shown);
    const { id } = definition;
    const read = workloads.of(definition, file);
    const installed = installedForm(definition, { anyReference });
    if (installed) {
      const lines = installedShapes(installed, definition, read);
      const shapes = path.join(to, `${id}.shapes`);
      if (lines.length > 0) writeNew(shapes, `${lines.join('\n')}\n`);
      return {
        ...about(),
        problem: installed.id,
        ...(lines.length > 0 && { shapes }),
        workloads: { taken: lines.length, found: read.length },
      };
    }
    const form = recognize(definition, { anyReference });
    const cases = importCases(form, read);
    const files = problemFiles(form, cases);
    if (taken.has(id))
      throw new NotImportable(`name: a problem has the id ${id} already: give the definition another name`);
    const folder = path.join(to, id);
    newFolder(folder, files);
    taken.add(id);
    return { ...about(), folder, workloads: { taken: cases.taken, found: cases.found } };
  } catch (error) {
    return { ...about(), reason: plainLine(reasonOf(error, shown).split('\n', 1)[0]!) };
  }
}

/** An error's text with file, key and remedy. */
export function reasonOf(error: unknown, file: string): string {
  if (error instanceof NotImportable) return `${file}: ${error.message}`;
  if (error instanceof FlashcoreError && error.reason === 'INVALID_MANIFEST') return error.message;
  if (error instanceof Error && 'syscall' in error) return `${file}: cannot be read (${whyUnreadable(error)})`;
  throw error;
}

/** Makes a problem's folder. Errors: NotImportable if the folder exists. */
export function newFolder(folder: string, files: Readonly<Record<string, string>>): void {
  made(folder, () => mkdirSync(folder));
  for (const [name, text] of Object.entries(files)) writeNew(path.join(folder, name), text);
}

const writeNew = (file: string, text: string): void => made(file, () => writeFileSync(file, text, { flag: 'wx' }));

function made(place: string, make: () => void): void {
  try {
    make();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw new NotImportable(`name: ${place} is there already: remove it, or give another folder with --to`);
  }
}

/** Makes the parent of the new folders. Errors: UsageError. */
export function requirePlace(to: string): void {
  const parent = path.dirname(path.resolve(to));
  if (!existsSync(parent)) throw new UsageError(`--to ${to}: there is no folder ${parent}: make it, or give another`);
  try {
    mkdirSync(to, { recursive: true });
  } catch (error) {
    throw new UsageError(`--to ${to}: must be a folder (${(error as NodeJS.ErrnoException).code}): give another`);
  }
}

interface Source {
  readonly definitions: readonly string[];
  readonly workloads: readonly string[];
  /** Problems of other benchmarks, which cannot be imported. */
  readonly others: readonly Imported[];
}

/** A file, or all files below a folder. Errors: UsageError. */
export function filesAt(from: string): string[] {
  const found = statSync(from, { throwIfNoEntry: false });
  if (!found) throw new UsageError(`${from}: there is no such file or folder: give a definition, or a folder of them`);
  return found.isDirectory() ? filesBelow(from) : [from];
}

function sourceOf(from: string): Source {
  const files = filesAt(from);
  if (files[0] === from) {
    const programs = othersIn([from]);
    return programs.length > 0
      ? { definitions: [], workloads: [], others: programs }
      : { definitions: [from], workloads: workloadsBeside(from), others: [] };
  }
  const json = files.filter((file) => file.endsWith('.json'));
  const inDefinitions = json.filter((file) => path.relative(from, file).split(path.sep).includes('definitions'));
  const definitions =
    path.basename(path.resolve(from)) === 'definitions' || inDefinitions.length === 0 ? json : inDefinitions;
  const others = definitions.length > 0 ? [] : othersIn(files);
  if (definitions.length === 0 && others.length === 0)
    throw new UsageError(`${from}: has no *.json: give a definition of FlashInfer-Bench, or a folder of them`);
  return { definitions, workloads: files.filter((file) => file.endsWith('.jsonl')), others };
}

/** The path `workloads/OP/NAME.jsonl` for `definitions/OP/NAME.json` of the same data set. */
function workloadsBeside(file: string): string[] {
  const [op, definitions] = [path.dirname(path.resolve(file)), path.dirname(path.dirname(path.resolve(file)))];
  if (path.basename(definitions) !== 'definitions') return [];
  const workloads = path.join(definitions, '../workloads', path.basename(op), `${path.basename(file, '.json')}.jsonl`);
  return existsSync(workloads) ? [workloads] : [];
}

/** Reports problems that are programs. To find out what such a program computes, one would have to run it. */
function othersIn(files: readonly string[]): Imported[] {
  const of = (name: string, count: number, what: string): Imported[] =>
    count === 0
      ? []
      : [{ file: name, name: '', opType: '', reason: `${name}: ${count} ${count === 1 ? 'file' : 'files'}: ${what}` }];
  return [
    ...of(
      `*${PROGRAMS}`,
      files.filter((file) => file.endsWith(PROGRAMS)).length,
      'Python programs, which are not run: give --from kernelbench to run problems of KernelBench in a sandbox, or write a problem.yaml (docs/problems.md)',
    ),
    ...of(
      TASK,
      files.filter((file) => path.basename(file) === TASK).length,
      'a task of GPU MODE has only shapes, and what it computes is a Python program: give --from gpumode to run it in a sandbox',
    ),
  ];
}

/** Regular files in order, without following links. */
function filesBelow(folder: string): string[] {
  const files: string[] = [];
  let folders = [folder];
  for (let depth = 0; depth <= MOST_DEPTH && folders.length > 0; depth += 1) {
    const next: string[] = [];
    for (const each of folders) {
      for (const entry of entriesOf(each)) {
        const place = path.join(each, entry.name);
        if (entry.isDirectory() && !entry.name.startsWith('.')) next.push(place);
        if (entry.isFile()) files.push(place);
        if (files.length + next.length > MOST_FILES)
          throw new UsageError(
            `${folder}: must have at most ${MOST_FILES} files: give only the folder of the data set`,
          );
      }
    }
    folders = next;
  }
  return files.toSorted();
}

function entriesOf(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    throw new UsageError(`${folder}: cannot be read (${whyUnreadable(error)})`);
  }
}

/** Workloads by definition. Files are read when they are needed. */
class WorkloadFiles {
  readonly #files: readonly string[];

  constructor(files: readonly string[]) {
    this.#files = files;
  }

  /** Workloads in files named after the definition or its file. Errors: INVALID_MANIFEST with file, line and key. */
  of({ name }: Definition, file: string): Workload[] {
    const named = new Set([`${name}.jsonl`, `${path.basename(file, '.json')}.jsonl`]);
    return this.#files
      .filter((each) => named.has(path.basename(each)))
      .flatMap((each) => parseWorkloads(readForeignText(each, WORKLOAD_BYTES), path.basename(each)))
      .filter(({ definition }) => definition === name);
  }
}
