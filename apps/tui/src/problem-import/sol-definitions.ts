/** Definitions of SOL-ExecBench: definition.json with a reference in Python, and workload.jsonl in the same folder. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { HAND_WRITTEN_BYTES, readForeignText } from '@flashcore/shared/files';
import type { TensorDtype } from '@flashcore/shared/kernels';
import { entryOf, plainLine } from '@flashcore/shared/text';
import { DTYPES, NotImportable } from './attention-forms.ts';
import { parseBareWorkloads, parseDefinition, type Definition, type Workload } from './definition.ts';
import {
  candidateOf,
  MOST_SOURCE_BYTES,
  pythonList,
  pythonMap,
  pythonValue,
  readBeside,
  shownIn,
  type Candidate,
  type Declared,
  type ForeignProgram,
} from './foreign-program.ts';

const DEFINITION = 'definition.json';
const WORKLOADS = 'workload.jsonl';
const MOST_WORKLOAD_BYTES = 8 * HAND_WRITTEN_BYTES;
/** Limit on workloads whose extents the sandbox tries. */
const MOST_TRIED = 32;

type Bare = Omit<Workload, 'definition'>;

/** The definitions among these files. `from` is what the user gave. */
export const readSolDefinitions = (files: readonly string[], from: string): Candidate[] =>
  files
    .filter((file) => path.basename(file) === DEFINITION || (files.length === 1 && file.endsWith('.json')))
    .map((file) => {
      const shown = shownIn(from, file);
      const folder = path.dirname(path.resolve(file));
      const name = plainLine(`${path.basename(path.dirname(folder))}/${path.basename(folder)}`);
      return candidateOf({ shown, name, idFrom: name }, () => {
        const definition = parseDefinition(readForeignText(file, HAND_WRITTEN_BYTES), shown);
        if (!existsSync(path.join(folder, WORKLOADS)))
          throw new NotImportable(`${WORKLOADS}: must be beside the definition, for the extents of its axes`);
        const workloads = parseBareWorkloads(readBeside(folder, WORKLOADS, MOST_WORKLOAD_BYTES), WORKLOADS);
        return programOf(definition, workloads);
      });
    });

function programOf(definition: Definition, workloads: readonly Bare[]): ForeignProgram {
  const { inputs, outputs, axes, expressions, constraints, reference } = definition;
  if (constraints.length > 0)
    throw new NotImportable(`constraints: nothing here draws "${constraints[0]!.slice(0, 80)}"`);
  if (Buffer.byteLength(reference) > MOST_SOURCE_BYTES)
    throw new NotImportable(
      `reference: must have at most ${MOST_SOURCE_BYTES} bytes, got ${Buffer.byteLength(reference)}`,
    );
  const dtypes = dtypesOf(definition);
  const scalars = Object.entries(inputs).flatMap(([name, { shape }]) => (shape === null ? [name] : []));
  const used = agreeing(definition, workloads, scalars);
  const values = Object.keys(inputs).map((name) => [name, entryOf(used[0]!.scalars, name) ?? null] as const);
  const shapes = Object.fromEntries(
    Object.entries(inputs).flatMap(([name, { shape }]) => (shape === null ? [] : [[name, shape] as const])),
  );
  const variable = variableAxes(definition);
  return {
    benchmark: 'SOL-ExecBench',
    source: reference,
    asked: JSON.stringify({
      source: reference,
      axes: {
        ...Object.fromEntries(Object.entries(axes).filter(([, extent]) => extent !== undefined)),
        ...expressions,
      },
      shapes,
      arguments: Object.fromEntries(values),
      workloads: used
        .slice(0, MOST_TRIED)
        .map((each) => Object.fromEntries(variable.map((axis) => [axis, entryOf(each.axes, axis)]))),
    }),
    axesAre: 'Axes are those that workloads give extents; constant ones are constants.',
    declared: { outputs: Object.keys(outputs), dtypes },
    call: (described, tensors) => ({
      function: 'run_definition',
      arguments: {
        arguments: pythonMap(values.map(([name, value]) => [name, pythonValue(value)])),
        axes: pythonList(described.axes.map(({ name }) => name)),
        inputs: pythonList(tensors.filter(({ kind }) => kind === 'input').map(({ called }) => called)),
        outputs: pythonList(tensors.filter(({ kind }) => kind === 'output').map(({ called }) => called)),
      },
    }),
  };
}

const variableAxes = ({ axes, expressions }: Definition): string[] =>
  Object.keys(axes).filter((name) => entryOf(axes, name) === undefined && entryOf(expressions, name) === undefined);

/** An output of 8 bits has a coarser rounding than the mistakes that imported problems must find. */
const INPUT_DTYPES: Readonly<Record<string, TensorDtype>> = { ...DTYPES, float8_e4m3fn: 'e4m3', float8_e5m2: 'e5m2' };

/** Dtypes of all tensors. Errors: NotImportable for a dtype that this program cannot draw or judge. */
function dtypesOf({ inputs, outputs }: Definition): Declared['dtypes'] {
  const found: [string, TensorDtype][] = [];
  for (const [group, tensors] of Object.entries({ inputs, outputs }))
    for (const [name, { shape, dtype, optional }] of Object.entries(tensors)) {
      if (optional) throw new NotImportable(`${group}.${name}.optional: no tensor of a problem here can be absent`);
      if (shape === null && group === 'inputs') continue;
      const takes = group === 'inputs' ? INPUT_DTYPES : DTYPES;
      const known = entryOf(takes, dtype);
      if (known === undefined)
        throw new NotImportable(
          `${group}.${name}.dtype: must be ${Object.keys(takes).join(', ')}, got ${dtype}: nothing here draws or judges others`,
        );
      if (shape === null || (shape.length === 0 && group === 'inputs'))
        throw new NotImportable(`${group}.${name}.shape: must have at least one axis`);
      found.push([name, known]);
    }
  return Object.fromEntries(found);
}

/** The workloads that give all axes and have the most common scalars. Errors: NotImportable. */
function agreeing(definition: Definition, workloads: readonly Bare[], scalars: readonly string[]): Bare[] {
  const axes = variableAxes(definition);
  const whole = workloads.filter((each) => axes.every((axis) => (entryOf(each.axes, axis) ?? 0) > 0));
  if (whole.length === 0 || axes.length === 0)
    throw new NotImportable(
      axes.length === 0
        ? 'axes: all are constants, so that there would be one case only'
        : `${WORKLOADS}: no workload gives an extent to each of ${axes.join(', ')}`,
    );
  const valuesOf = (each: Bare): string => JSON.stringify(scalars.map((name) => entryOf(each.scalars, name) ?? null));
  const alike = Object.values(Object.groupBy(whole, valuesOf)).toSorted((a, b) => b!.length - a!.length)[0]!;
  const unknown = scalars.find((name) => entryOf(alike[0]!.scalars, name) === undefined);
  if (unknown !== undefined) throw new NotImportable(`inputs.${unknown}: a number, and no workload gives its value`);
  return alike;
}
