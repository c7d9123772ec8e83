/**
 * All known problems. A problem of this installation has a folder in `problems`, at the root above the programs. A
 * user's problem has a folder in one of the folders of $FLASHCORE_PROBLEMS, or comes with a kernel, in the kernel's
 * folder `problem`.
 */
import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { basename, delimiter, dirname, join, resolve } from 'node:path';
import { FlashcoreError } from '../contract/errors.ts';
import { HAND_WRITTEN_BYTES, readForeignText, whyUnreadable } from '../files/foreign-file.ts';
import { PROBLEM_ID } from './problem-schema.ts';
import { type Problem, type ProblemFiles, parseProblem } from './problem.ts';

/** The problem of a kernel that names no problem. */
export const DEFAULT_PROBLEM = 'attention';

/** The problem that a message or record names. A record from before problems were stored names no problem. */
export const recordedProblem = (text: string | undefined): string => text || DEFAULT_PROBLEM;

/** Folders of problems, with the separator of $PATH. Child processes see the same problems. */
export const PROBLEMS_VARIABLE = 'FLASHCORE_PROBLEMS';

/** How to make a problem known to a program. A runner reads the list of folders only at its start. */
export const PROBLEMS_REMEDY =
  'folders of others: problems in flashcore.yaml, $FLASHCORE_PROBLEMS, and --problems of a runner when it starts';

export const PROBLEM_FILE = 'problem.yaml';
/** A problem with `op: own` has exactly one of these files. */
const REFERENCE_FILES = ['reference.cpp', 'reference.py'] as const;
const CASES_FILE = 'cases.yaml';
const FILES = [CASES_FILE, PROBLEM_FILE, ...REFERENCE_FILES] as const;
/** Name of the folder, inside a kernel's folder, that contains the problem that the kernel brings along. */
export const BROUGHT_FOLDER = 'problem';
/** Limit on the size of one file: a runner keeps the definitions that clients send with their kernels in memory. */
const MAX_BROUGHT_BYTES = 64 * 1024;
/** Paths, inside a kernel's folder, of the files of the problem that the kernel brings along. */
export const BROUGHT_PATHS: readonly string[] = FILES.map((name) => `${BROUGHT_FOLDER}/${name}`);
/** Problems already read, by id. `version` changes when the user edits the file; '' for installed problems. */
const read = new Map<string, { problem: Problem; version: string }>();

/** A problem's folder, and its name in messages. */
interface Place {
  readonly folder: string;
  readonly shown: string;
}

/**
 * Adds folders of problems to $FLASHCORE_PROBLEMS. Relative names become absolute, because a child process may have
 * another working directory. Errors: INVALID_MANIFEST for a folder that the variable cannot contain.
 */
export function addProblemFolders(folders: readonly string[]): void {
  const added = folders.map((folder) => resolve(folder));
  const unnamed = added.find((folder) => folder.includes(delimiter));
  if (unnamed !== undefined)
    throw wrong(unnamed, `a folder of problems must have no "${delimiter}" in its path, which separates folders`);
  const all = new Set([...userFolders(), ...added]);
  if (all.size > 0) process.env[PROBLEMS_VARIABLE] = [...all].join(delimiter);
}

/**
 * Adds the folder that a repository's flashcore.yaml names. One that does not exist counts as empty, because Git keeps
 * no empty folders. Errors: as addProblemFolders().
 */
export function addProjectProblems(folder: string): void {
  if (existsSync(folder)) addProblemFolders([folder]);
  else absent.add(resolve(folder));
}

/** Folders of addProjectProblems() that do not exist. */
const absent = new Set<string>();

/** Where a problem's folder is searched: this installation's folder and the user's, and those that are absent. */
export const problemFolders = (): { searched: string[]; absent: string[] } => ({
  searched: [ownFolder(), ...userFolders()],
  absent: [...absent],
});

/**
 * Checks the user's own problems. Those of this installation are checked by its tests, and to read them takes a quarter
 * of a runner's start. Errors: INVALID_MANIFEST for an invalid folder, an id that two problems share, and faults in a
 * problem.
 */
export function requireProblems(): void {
  for (const id of installedProblems().filter((each) => !isOwn(each))) {
    const problem = installedProblem(id);
    if (problem.operation === 'own') referenceSource(problem);
    casesSource(problem);
  }
}

/**
 * The problem with an id of installedProblems(). Each is read once; a user's problem is read again after an edit.
 * Errors: INVALID_MANIFEST with path and key.
 */
export function installedProblem(id: string): Problem {
  const known = read.get(id);
  if (known?.version === '') return known.problem;
  const { folder, shown } = placeOf(id);
  const file = join(folder, PROBLEM_FILE);
  const version = isOwn(id) ? '' : versionOf(file);
  if (known?.version === version) return known.problem;
  const path = join(shown, PROBLEM_FILE);
  const problem = parseProblem(textOf({ folder, shown }, PROBLEM_FILE), path);
  if (problem.id !== id)
    throw new FlashcoreError('INVALID_MANIFEST', { path, key: 'id' }, `${path}: id: must be the folder's name "${id}"`);
  read.set(id, { problem, version });
  return problem;
}

type NamedProblem = Pick<Problem, 'id' | 'brought'>;

/** Benchmarks whose problems are Python programs that kernels/reference/python_reference.py can describe. */
export const PROBLEM_PROGRAMS = ['kernelbench', 'gpumode', 'sol-execbench'] as const;
export type ProblemProgram = (typeof PROBLEM_PROGRAMS)[number];

/** A reference in C++ or Python. */
export interface ReferenceSource {
  readonly name: (typeof REFERENCE_FILES)[number];
  readonly text: string;
  /** The file's path in messages. */
  readonly path: string;
}

/** A problem's reference.cpp or reference.py. Errors: INVALID_MANIFEST if there is none, or if there are both. */
export function referenceSource(problem: NamedProblem): ReferenceSource {
  const [cpp, python] = REFERENCE_FILES;
  if (has(problem, cpp) && has(problem, python))
    throw wrong(pathIn(problem, python), `must be the only reference, and there is ${cpp} too: remove one of them`);
  const name = has(problem, python) ? python : cpp;
  const why = `because problem.yaml says reference: { op: own }; ${python} can take its place`;
  return { name, ...textIn(problem, name, 'reference.op', why) };
}

/** A problem's cases.yaml, with the path that error messages show. Errors: INVALID_MANIFEST if there is none. */
export const casesSource = (problem: NamedProblem): { text: string; path: string } =>
  textIn(problem, CASES_FILE, undefined, 'with the cases of the problem');

/**
 * The full definition of a user's problem, which is one of the rules that judge a ranked run. Undefined for a problem
 * of this installation, which the runner's build already identifies.
 */
export function ownDefinition(problem: Problem): string | undefined {
  const files = problem.brought ?? ownProblemFiles(problem.id);
  if (files === undefined) return undefined;
  const text = files[PROBLEM_FILE];
  return problem.operation === 'own' ? `${text}\0${referenceSource(problem).text}` : text;
}

/** The files of a user's problem; undefined for a problem of this installation. Errors: INVALID_MANIFEST. */
export function ownProblemFiles(id: string): ProblemFiles | undefined {
  if (isOwn(id)) return undefined;
  const place = placeOf(id);
  return filesBy((name) => (existsSync(join(place.folder, name)) ? textOf(place, name) : undefined));
}

/** The problem that a kernel brings along, from the files of its folder; undefined if there is none. */
export const broughtFiles = (textAt: (path: string) => string | undefined): ProblemFiles | undefined =>
  filesBy((name) => textAt(`${BROUGHT_FOLDER}/${name}`));

function filesBy(text: (name: (typeof FILES)[number]) => string | undefined): ProblemFiles | undefined {
  const definition = text(PROBLEM_FILE);
  if (definition === undefined) return undefined;
  const [cpp, python] = REFERENCE_FILES;
  return {
    [PROBLEM_FILE]: definition,
    [CASES_FILE]: text(CASES_FILE),
    [cpp]: text(cpp),
    [python]: text(python),
  };
}

/** The problem that a kernel brings along, read from its folder. Errors: INVALID_MANIFEST for a link. */
export function broughtFilesIn(folder: string): ProblemFiles | undefined {
  const place = { folder: join(folder, BROUGHT_FOLDER), shown: BROUGHT_FOLDER };
  return broughtFiles((path) =>
    existsSync(join(folder, path)) ? textOf(place, basename(path), MAX_BROUGHT_BYTES) : undefined,
  );
}

/**
 * The problem of a kernel that brings one along. If a problem with this id is installed, it is used and must have the
 * same text. Errors: INVALID_MANIFEST with path and key.
 */
export function broughtProblem(id: string, files: ProblemFiles): Problem {
  const path = `${BROUGHT_FOLDER}/${PROBLEM_FILE}`;
  if (installedProblems().includes(id)) {
    const installed = ownProblemFiles(id);
    if (installed === undefined)
      throw wrong(path, `"${id}" is a problem of flashcore's: give yours an id of its own`, 'id');
    const other = FILES.find((name) => installed[name] !== files[name]);
    if (other === undefined) return installedProblem(id);
    throw wrong(
      `${BROUGHT_FOLDER}/${other}`,
      `must be the same as in the installed problem "${id}": take that one, or give yours an id of its own`,
    );
  }
  const problem = parseProblem(files[PROBLEM_FILE], path);
  if (problem.id === id) return { ...problem, brought: files };
  throw wrong(path, `must be the problem of kernel.yaml, "${id}", got "${problem.id}"`, 'id');
}

/** Whether a problem that was read earlier is still the one that its id names. */
export function isCurrentProblem(problem: Problem): boolean {
  const installed = installedProblems().includes(problem.id);
  return problem.brought === undefined ? installed && installedProblem(problem.id) === problem : !installed;
}

/**
 * The ids of all problems. Errors: INVALID_MANIFEST for an invalid folder in $FLASHCORE_PROBLEMS and for a duplicate
 * id.
 */
export function installedProblems(): string[] {
  const ids = problemsIn(ownFolder());
  for (const folder of userFolders()) {
    for (const id of problemsIn(folder)) {
      if (!PROBLEM_ID.pattern.test(id)) throw wrong(join(folder, id), `must be named ${PROBLEM_ID.inWords}`);
      if (ids.includes(id))
        throw wrong(join(folder, id), `the id of a problem must be its own, and another problem is called "${id}"`);
      ids.push(id);
    }
  }
  return ids;
}

const has = ({ id, brought }: NamedProblem, name: (typeof FILES)[number]): boolean =>
  brought ? brought[name] !== undefined : existsSync(join(placeOf(id).folder, name));

const pathIn = ({ id, brought }: NamedProblem, name: (typeof FILES)[number]): string =>
  join(brought ? BROUGHT_FOLDER : placeOf(id).shown, name);

function textIn(
  { id, brought }: NamedProblem,
  name: (typeof FILES)[number],
  key: string | undefined,
  why: string,
): { text: string; path: string } {
  if (brought) {
    const [path, text] = [`${BROUGHT_FOLDER}/${name}`, brought[name]];
    if (text !== undefined) return { text, path };
    throw wrong(path, `must be there, ${why}`, key);
  }
  const place = placeOf(id);
  const path = join(place.shown, name);
  if (existsSync(join(place.folder, name))) return { text: textOf(place, name), path };
  throw wrong(path, `must be there, ${why}`, key);
}

/** Follows no links, because a repository that somebody else wrote may have links that lead out of it. */
function textOf({ folder, shown }: Place, name: string, most = HAND_WRITTEN_BYTES): string {
  const file = join(folder, name);
  if (realpathSync(file) !== join(realpathSync(dirname(folder)), basename(folder), name))
    throw wrong(join(shown, name), 'must be a file of its folder, not a link');
  try {
    return readForeignText(file, most);
  } catch (cause) {
    throw wrong(join(shown, name), `must be a file that can be read (${whyUnreadable(cause)})`);
  }
}

/** Whether a problem of this installation has the id. */
const isOwn = (id: string): boolean => existsSync(join(ownFolder(), id, PROBLEM_FILE));

function placeOf(id: string): Place {
  if (isOwn(id)) return { folder: join(ownFolder(), id), shown: `problems/${id}` };
  const among = userFolders().find((each) => existsSync(join(each, id, PROBLEM_FILE)));
  if (among === undefined) throw wrong(`problems/${id}`, 'is not installed any more');
  return { folder: join(among, id), shown: join(among, id) };
}

function problemsIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((id) => existsSync(join(folder, id, PROBLEM_FILE)));
  } catch (error) {
    throw wrong(
      folder,
      `must be a folder of problems, for $FLASHCORE_PROBLEMS, --problems or flashcore.yaml names it (${(error as Error).message})`,
    );
  }
}

const userFolders = (): string[] =>
  (process.env[PROBLEMS_VARIABLE] ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => resolve(folder));

function versionOf(file: string): string {
  const { mtimeMs, size, ino } = statSync(file);
  return `${mtimeMs} ${size} ${ino}`;
}

const wrong = (path: string, message: string, key?: string): FlashcoreError =>
  new FlashcoreError('INVALID_MANIFEST', { path, ...(key !== undefined && { key }) }, `${path}: ${message}`);

/** A file of the installation, by its path in the repository. */
export const installedFile = (path: string): string => join(dirname(ownFolder()), path);

let own: string | undefined;

// Sources and bundles are at different depths below the root.
function ownFolder(): string {
  if (own !== undefined) return own;
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const problems = join(folder, 'problems');
    if (existsSync(join(problems, DEFAULT_PROBLEM, PROBLEM_FILE))) return (own = problems);
    if (folder === dirname(folder))
      throw new Error(
        `no problems/${DEFAULT_PROBLEM} in any folder above ${import.meta.dirname}: install flashcore again`,
      );
  }
}
