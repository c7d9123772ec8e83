/** The problems of this installation: a folder each in `problems`, at the root that the programs lie below. */
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { FlashcoreError } from '../contract/errors.ts';
import { HAND_WRITTEN_BYTES, readForeignText } from '../files/foreign-file.ts';
import { type Problem, parseProblem } from './problem.ts';

/** What a kernel computes that names no problem. */
export const DEFAULT_PROBLEM = 'attention';

/** The problem that a message or a record names; those from before it was noted name none. */
export const recordedProblem = (text: string | undefined): string => text || DEFAULT_PROBLEM;

const PROBLEM_FILE = 'problem.yaml';
const REFERENCE_FILE = 'reference.cpp';
const CASES_FILE = 'cases.yaml';
const read = new Map<string, Problem>();

/** The problem of an id of installedProblems(); each is read once. Errors: INVALID_MANIFEST with path and key. */
export function installedProblem(id: string): Problem {
  const known = read.get(id);
  if (known) return known;
  const path = join(problemsFolder(), id, PROBLEM_FILE);
  const problem = parseProblem(readForeignText(path, HAND_WRITTEN_BYTES), path);
  if (problem.id !== id)
    throw new FlashcoreError('INVALID_MANIFEST', { path, key: 'id' }, `${path}: id: wanted the folder's name "${id}"`);
  read.set(id, problem);
  return problem;
}

/** The text of a problem's reference.cpp. Errors: INVALID_MANIFEST if there is none. */
export function referenceSource(id: string): string {
  const path = `problems/${id}/${REFERENCE_FILE}`;
  const file = join(problemsFolder(), id, REFERENCE_FILE);
  if (existsSync(file)) return readForeignText(file, HAND_WRITTEN_BYTES);
  const message = `${path}: must be there, because problem.yaml says reference: { op: own }`;
  throw new FlashcoreError('INVALID_MANIFEST', { path, key: 'reference.op' }, message);
}

/** A problem's cases.yaml, with the path that error messages show. Errors: INVALID_MANIFEST if there is none. */
export function casesSource(id: string): { text: string; path: string } {
  const path = `problems/${id}/${CASES_FILE}`;
  const file = join(problemsFolder(), id, CASES_FILE);
  if (existsSync(file)) return { text: readForeignText(file, HAND_WRITTEN_BYTES), path };
  throw new FlashcoreError('INVALID_MANIFEST', { path }, `${path}: must be there, with the cases of the problem`);
}

/** Their ids. */
export const installedProblems = (): string[] =>
  readdirSync(problemsFolder()).filter((id) => existsSync(join(problemsFolder(), id, PROBLEM_FILE)));

// Sources and bundles lie at different depths below the root.
function problemsFolder(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const problems = join(folder, 'problems');
    if (existsSync(join(problems, DEFAULT_PROBLEM, PROBLEM_FILE))) return problems;
    if (folder === dirname(folder))
      throw new Error(
        `no problems/${DEFAULT_PROBLEM} in any folder above ${import.meta.dirname}: install flashcore again`,
      );
  }
}
