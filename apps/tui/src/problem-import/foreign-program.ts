/** A problem of another benchmark that is a Python program, with the texts that the import and the sandbox need. */
import { lstatSync } from 'node:fs';
import path from 'node:path';
import { readForeignText } from '@flashcore/shared/files';
import type { TensorDtype } from '@flashcore/shared/kernels';
import { plainLine } from '@flashcore/shared/text';
import { NotImportable } from './attention-forms.ts';
import type { DescribedProgram } from './described-program.ts';
import { reasonOf } from './import-problems.ts';

export type DescribedTensor = DescribedProgram['tensors'][number] & {
  /** The problem's name in problem.yaml. */
  readonly called: string;
};

export interface ForeignProgram {
  /** The benchmark's name in comments. */
  readonly benchmark: string;
  /** The text that becomes reference.py. */
  readonly source: string;
  /** The text that the sandbox runs. */
  readonly asked: string;
  /** The meaning of the axes, for a comment. */
  readonly axesAre: string;
  /** Names and dtypes of the tensors, if the problem declares them. */
  readonly declared?: Declared;
  /** The Python call in reference.py, as lines without the first argument. Errors: NotImportable. */
  readonly call: (described: DescribedProgram, tensors: readonly DescribedTensor[]) => ProgramCall;
}

export interface Declared {
  readonly outputs: readonly string[];
  /** Dtypes by tensor name. */
  readonly dtypes: Readonly<Record<string, TensorDtype>>;
}

interface ProgramCall {
  /** A function of flashcore_reference. */
  readonly function: 'run_model' | 'run_task' | 'run_definition';
  readonly arguments: Readonly<Record<string, string>>;
}

/** A file with a problem, or the reason why it cannot be read. */
export interface Candidate {
  readonly shown: string;
  readonly name: string;
  /** The text that the id is made from. */
  readonly idFrom: string;
  readonly program?: ForeignProgram;
  readonly reason?: string;
}

/** A runner accepts problem files of at most 64 KiB, and the import adds a function to the source. */
export const MOST_SOURCE_BYTES = 60 * 1024;

/** Reads a candidate. If it cannot be imported, the candidate has the reason. */
export function candidateOf(
  about: Pick<Candidate, 'shown' | 'name' | 'idFrom'>,
  read: () => ForeignProgram,
): Candidate {
  try {
    return { ...about, program: read() };
  } catch (error) {
    return { ...about, reason: plainLine(reasonOf(error, about.shown).split('\n', 1)[0]!) };
  }
}

/** The name of a file in messages, made from the path that the user gave. */
export const shownIn = (from: string, file: string): string =>
  plainLine(path.relative(from, file) || path.basename(file));

/** A file's text, without following a link. Errors: NotImportable, and those of the operating system. */
export function readBeside(folder: string, name: string, most: number): string {
  const file = path.join(folder, name);
  if (!lstatSync(file).isFile()) throw new NotImportable(`${name}: must be a file, and no link is followed`);
  return readForeignText(file, most);
}

export const pythonList = (names: readonly string[]): string => `[${names.map((name) => `"${name}"`).join(', ')}]`;
export const pythonMap = (entries: readonly (readonly [string, string])[]): string =>
  `{${entries.map(([name, value]) => `"${name}": ${value}`).join(', ')}}`;

/** A number, boolean or plain text in Python. Texts need no escapes; they were checked before. */
export function pythonValue(value: unknown): string {
  if (value === true) return 'True';
  if (value === false) return 'False';
  return value === null ? 'None' : JSON.stringify(value);
}
