/**
 * Tasks of GPU MODE: either task.yml with reference.py in the same folder, or rows of its data set, each a JSON object
 * with both files.
 */
import path from 'node:path';
import { HAND_WRITTEN_BYTES, readForeignText } from '@flashcore/shared/files';
import { MAX_EXTENT, yamlFile } from '@flashcore/shared/kernels';
import { plainLine } from '@flashcore/shared/text';
import * as z from 'zod';
import { NotImportable } from './attention-forms.ts';
import { identifier } from './definition.ts';
import {
  candidateOf,
  MOST_SOURCE_BYTES,
  pythonList,
  pythonMap,
  pythonValue,
  readBeside,
  shownIn,
  type Candidate,
  type ForeignProgram,
} from './foreign-program.ts';

const { flag, formatKey, listOf, mapOf, mustBe, oneOf, parseYamlFile, text } = yamlFile;

const TASK = 'task.yml';
const REFERENCE = 'reference.py';
const MOST_FILES = 32;
const MOST_ROWS = 256;
const MOST_ROWS_BYTES = 4 * 1024 ** 2;
/** The argument that seeds a task's inputs. It can be larger than an extent, because it is never one. */
const SEED = 'seed';

type Argument = boolean | number | string;
const argument = z.custom<Argument>(
  (value) =>
    typeof value === 'boolean' ||
    (typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER) ||
    (typeof value === 'string' && /^[\w.+ -]{0,64}$/.test(value)),
  { error: (issue) => mustBe('one number below 2^53, a truth value or a text of letters and digits', issue.input) },
);
const spec = mapOf(identifier, argument).superRefine((given, context) => {
  for (const [name, value] of Object.entries(given))
    if (name !== SEED && typeof value === 'number' && Math.abs(value) > MAX_EXTENT)
      context.addIssue({
        code: 'custom',
        path: [name],
        message: mustBe(`a number of at most ${MAX_EXTENT}`, value),
      });
});
const common = {
  lang: oneOf(['py', 'cu']),
  multi_gpu: flag().nullish(),
  tests: listOf(spec).nullish(),
  benchmarks: listOf(spec).nullish(),
};
const taskSchema = z.object(
  {
    ...common,
    files: listOf(
      z.object(
        { name: text(), source: text() },
        { error: (issue) => mustBe('{ "name": …, "source": … }', issue.input) },
      ),
      MOST_FILES,
    ),
  },
  { error: (issue) => mustBe('a task of GPU MODE: a mapping', issue.input) },
);
const rowTask = z.object(
  { ...common, files: mapOf(text(), z.string(), MOST_FILES) },
  { error: (issue) => mustBe('a task of GPU MODE: a mapping', issue.input) },
);
const rowSchema = z.object(
  { name: text().max(128, 'must have at most 128 characters'), task: z.unknown().optional() },
  { error: (issue) => mustBe('a row of GPU MODE: a JSON object with name and task', issue.input) },
);

type Spec = z.output<typeof spec>;
type Task = Pick<z.output<typeof taskSchema>, 'lang' | 'multi_gpu' | 'tests' | 'benchmarks'>;

/** The tasks among these files. `from` is the path on the command line. */
export function readTasks(files: readonly string[], from: string): Candidate[] {
  return files.flatMap((file) => {
    if (path.basename(file) === TASK) return [taskAt(file, from)];
    return files.length === 1 && /\.jsonl?$/.test(file) ? rowsAt(file, from) : [];
  });
}

function taskAt(file: string, from: string): Candidate {
  const folder = path.dirname(path.resolve(file));
  const shown = shownIn(from, file);
  const about = {
    shown,
    name: plainLine(`${path.basename(path.dirname(folder))}/${path.basename(folder)}`),
    idFrom: `${path.basename(path.dirname(folder))}_${path.basename(folder)}`,
  };
  return candidateOf(about, () => {
    const { value: task } = parseYamlFile(readForeignText(file, HAND_WRITTEN_BYTES), shown, taskSchema);
    const index = task.files.findIndex(({ name }) => name === REFERENCE);
    if (index === -1) throw new NotImportable(`files: must have a file with the name ${REFERENCE}`);
    const { source } = task.files[index]!;
    if (!/^\w[\w.-]{0,63}$/.test(source))
      throw new NotImportable(
        `files[${index}].source: must be a file in the folder of ${TASK}, got ${JSON.stringify(yamlFile.shown(source))}`,
      );
    return programOf(task, readBeside(folder, source, MOST_SOURCE_BYTES));
  });
}

/** Rows of a data set: one JSON object per line, or a list of objects. */
function rowsAt(file: string, from: string): Candidate[] {
  const shown = shownIn(from, file);
  let rows: Row[];
  try {
    rows = rowsOf(readForeignText(file, MOST_ROWS_BYTES), path.extname(file));
  } catch (error) {
    return [candidateOf({ shown, name: '', idFrom: '' }, () => raise(error))];
  }
  return rows.map(({ value, error }, index) => {
    const place = `${shown}, row ${index + 1}`;
    const named = z.looseObject({ name: z.string() }).safeParse(value).data?.name ?? '';
    const name = plainLine(named.slice(0, 128));
    return candidateOf({ shown: place, name, idFrom: `gpumode_${name}` }, () => {
      if (error !== undefined) raise(error);
      const { task: given } = checked(rowSchema, value, []);
      const task = checked(rowTask, typeof given === 'string' ? parseJson(given, 'task') : given, ['task']);
      const source = Object.hasOwn(task.files, REFERENCE) ? task.files[REFERENCE]! : undefined;
      if (source === undefined) throw new NotImportable(`task.files: must have a file with the name ${REFERENCE}`);
      if (Buffer.byteLength(source) > MOST_SOURCE_BYTES)
        throw new NotImportable(
          `task.files.${REFERENCE}: must have at most ${MOST_SOURCE_BYTES} bytes, got ${Buffer.byteLength(source)}`,
        );
      return programOf(task, source);
    });
  });
}

function raise(error: unknown): never {
  throw error;
}

/** `error`: why the row can't be read; it does not keep the others from being imported. */
interface Row {
  readonly value?: unknown;
  readonly error?: unknown;
}

function rowsOf(content: string, extension: string): Row[] {
  if (extension !== '.jsonl' && content.trimStart().startsWith('['))
    return bounded((parseJson(content, 'the rows') as unknown[]).map((value) => ({ value })));
  const lines = content.split('\n', MOST_ROWS + 2).filter((line) => line.trim() !== '');
  return bounded(lines).map((line) => {
    try {
      return { value: parseJson(line, 'the line') };
    } catch (error) {
      return { error };
    }
  });
}

function bounded<Each>(rows: Each[]): Each[] {
  if (rows.length > MOST_ROWS) throw new NotImportable(`the rows: must have at most ${MOST_ROWS}`);
  return rows;
}

function checked<Schema extends z.ZodType>(schema: Schema, value: unknown, at: string[]): z.output<Schema> {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const key = formatKey([...at, ...(issue!.path as (string | number)[])]);
  throw new NotImportable(`${key || 'the row'}: ${issue!.message}`);
}

function programOf({ lang, multi_gpu, tests, benchmarks }: Task, source: string): ForeignProgram {
  if (lang !== 'py') throw new NotImportable(`lang: must be py, got ${lang}: its reference is not a Python program`);
  if (multi_gpu) throw new NotImportable('multi_gpu: the task needs several GPUs, and a problem here has one');
  const specs: Spec[] = [...(tests ?? []), ...(benchmarks ?? [])].filter((each) => Object.keys(each).length > 0);
  if (specs.length === 0) throw new NotImportable('benchmarks: must have at least one with arguments');
  return {
    benchmark: 'GPU MODE',
    source,
    asked: JSON.stringify({ source, tests: tests ?? [], benchmarks: benchmarks ?? [] }),
    axesAre: 'Axes are the arguments of its tests and benchmarks that shapes follow from; the others are constants.',
    call: ({ axes, spec: chosen, places }, tensors) => {
      const inputs = tensors.filter(({ kind }) => kind === 'input');
      const given = [...(tests ?? []), ...(benchmarks ?? [])][chosen ?? -1];
      if (given === undefined || places?.length !== inputs.length)
        throw new NotImportable('the program: its answer names no test and no places of inputs');
      return {
        function: 'run_task',
        arguments: {
          arguments: pythonMap(Object.entries(given).map(([name, value]) => [name, pythonValue(value)])),
          axes: pythonList(axes.map(({ name }) => name)),
          inputs: pythonMap(inputs.map(({ called }, index) => [called, String(places[index])])),
          outputs: pythonList(tensors.filter(({ kind }) => kind === 'output').map(({ called }) => called)),
        },
      };
    },
  };
}

/**
 * Reads JSON of a foreign author, which must not give a key twice: readers differ in which value counts. Errors:
 * NotImportable that begins with `what`.
 */
function parseJson(text: string, what: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new NotImportable(`${what}: must be JSON`);
  }
  const repeated = repeatedKey(text);
  if (repeated === undefined) return value;
  throw new NotImportable(`${what}: must have each key once, got ${yamlFile.shown(repeated)} twice`);
}

/** A key that an object of this valid JSON text has twice. */
function repeatedKey(text: string): string | undefined {
  const seen: Set<string>[] = [];
  for (const [token, key] of text.matchAll(/"((?:[^"\\]|\\.)*)"\s*:|"(?:[^"\\]|\\.)*"|[{}]/g)) {
    if (token === '{') seen.push(new Set());
    else if (token === '}') seen.pop();
    else if (key !== undefined) {
      const name = JSON.parse(`"${key}"`) as string;
      if (seen.at(-1)!.has(name)) return name;
      seen.at(-1)!.add(name);
    }
  }
  return undefined;
}
