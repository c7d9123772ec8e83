/**
 * Imports problems that are Python programs. The programs run only in a sandbox, which the runner's program sets up.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readForeignText } from '@flashcore/shared/files';
import { installedProblems, type ProblemProgram } from '@flashcore/shared/kernels';
import { plainLine } from '@flashcore/shared/text';
import { NotImportable } from './attention-forms.ts';
import { idOf } from './definition.ts';
import { readDescription } from './described-program.ts';
import {
  candidateOf,
  MOST_SOURCE_BYTES,
  pythonList,
  pythonMap,
  shownIn,
  type Candidate,
  type ForeignProgram,
} from './foreign-program.ts';
import { readTasks } from './gpumode-tasks.ts';
import { filesAt, newFolder, reasonOf, requirePlace, type Imported } from './import-problems.ts';
import { programFiles } from './program-files.ts';
import { readSolDefinitions } from './sol-definitions.ts';
import { UsageError } from '../exit-code.ts';

interface ProgramPlan {
  /** A problem's file, or a folder of problems. */
  readonly from: string;
  readonly form: ProblemProgram;
  /** The parent of the new problem folders. */
  readonly to: string;
  /** Runs files in a sandbox and returns one line per file, in the order of the files. */
  readonly describe: (files: readonly string[]) => Promise<string>;
}

/**
 * A function that all of KernelBench's problems define. A checkout's other Python files do not define it and are left
 * out.
 */
const DEFINES = /^def get_init_inputs\b/m;

interface Benchmark {
  readonly read: (files: readonly string[], from: string) => Candidate[];
  /** The files that the error about an empty folder asks for. */
  readonly wanted: string;
}

const BENCHMARKS: Readonly<Record<ProblemProgram, Benchmark>> = {
  kernelbench: {
    read: readModules,
    wanted: 'has no *.py with get_init_inputs: give a problem of KernelBench, or a folder of them',
  },
  gpumode: {
    read: readTasks,
    wanted: 'has no task.yml: give a task of GPU MODE, a folder of them, or rows of its data set as JSON',
  },
  'sol-execbench': {
    read: readSolDefinitions,
    wanted: 'has no definition.json: give a definition of SOL-ExecBench, or a folder of them',
  },
};

/**
 * Imports problems without replacing an existing file or following a link. Errors: UsageError for unusable paths, and
 * those of `describe`.
 */
export async function importPrograms({ from, form, to, describe }: ProgramPlan): Promise<Imported[]> {
  const { read, wanted } = BENCHMARKS[form];
  const candidates = read(filesAt(from), from);
  if (candidates.length === 0) throw new UsageError(`${from}: ${wanted}`);
  requirePlace(to);
  const readable = candidates.filter(({ program }) => program !== undefined);
  const lines = await described(readable, describe);
  const taken = new Set(installedProblems());
  return candidates.map((candidate) =>
    importOne(candidate, { form, to, taken, line: lines[readable.indexOf(candidate)] }),
  );
}

/** KernelBench's problems: one Python module per file. */
function readModules(files: readonly string[], from: string): Candidate[] {
  return files
    .filter((file) => file.endsWith('.py'))
    .map((file) => {
      const shown = shownIn(from, file);
      const name = path.basename(shown, '.py');
      // The level's folder is part of the id, because KernelBench numbers the problems of each level from 1.
      const idFrom = `${path.basename(path.dirname(path.resolve(file)))}_${name}`;
      return candidateOf({ shown, name, idFrom }, () => moduleOf(readForeignText(file, MOST_SOURCE_BYTES)));
    })
    .filter(({ program }) => program === undefined || DEFINES.test(program.source));
}

const moduleOf = (source: string): ForeignProgram => ({
  benchmark: 'KernelBench',
  source,
  asked: source,
  axesAre: 'Axes are the integers at the top of the file that its inputs follow from; other extents are constants.',
  call: ({ axes }, tensors) => {
    const of = (kind: string) => tensors.filter((tensor) => tensor.kind === kind);
    return {
      function: 'run_model',
      arguments: {
        axes: pythonList(axes.map(({ name }) => name)),
        inputs: pythonList(of('input').map(({ called }) => called)),
        weights: pythonMap(of('weight').map(({ name, called }) => [name, `"${called}"`])),
        outputs: pythonList(of('output').map(({ called }) => called)),
      },
    };
  },
});

/** The sandbox gets copies, so that it describes the same text that becomes the reference. */
async function described(readable: readonly Candidate[], describe: ProgramPlan['describe']): Promise<string[]> {
  if (readable.length === 0) return [];
  const folder = mkdtempSync(path.join(tmpdir(), 'flashcore-import-'));
  try {
    const copies = readable.map(({ program }, index) => {
      const copy = path.join(folder, `${index}.py`);
      writeFileSync(copy, program!.asked);
      return copy;
    });
    return (await describe(copies)).split('\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

interface Surroundings extends Pick<ProgramPlan, 'form' | 'to'> {
  /** Ids that are already in use. */
  readonly taken: Set<string>;
  readonly line: string | undefined;
}

function importOne({ shown, name, idFrom, program, reason }: Candidate, plan: Surroundings): Imported {
  const { form, to, taken, line } = plan;
  const about = { file: shown, name, opType: form };
  if (program === undefined) return { ...about, reason: reason! };
  try {
    const id = idOf(idFrom);
    if (id === undefined) throw new NotImportable('the name: must be a name with a letter: give the file another');
    const files = programFiles({ id, name, file: shown, form, program, described: readDescription(line) });
    if (taken.has(id)) throw new NotImportable(`the name: a problem has the id ${id} already: give the file another`);
    const folder = path.join(to, id);
    newFolder(folder, files);
    taken.add(id);
    return { ...about, folder, dtype: Object.values(program.declared?.dtypes ?? {})[0] ?? 'fp32' };
  } catch (error) {
    return { ...about, reason: plainLine(reasonOf(error, shown).split('\n', 1)[0]!) };
  }
}
