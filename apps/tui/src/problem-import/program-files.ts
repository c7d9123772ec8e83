/** The folder of a problem whose reference is a foreign Python program: problem.yaml, cases.yaml, reference.py. */
import { parseCases, parseProblem, type ProblemProgram } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { NotImportable } from './attention-forms.ts';
import { INPUT_ABOUTS, type DescribedProgram } from './described-program.ts';
import type { DescribedTensor, ForeignProgram } from './foreign-program.ts';
import { yamlText, type Plain } from './yaml-text.ts';

interface Program {
  readonly id: string;
  readonly name: string;
  /** Name of the file in messages and comments. */
  readonly file: string;
  readonly form: ProblemProgram;
  readonly program: ForeignProgram;
  readonly described: DescribedProgram;
}

type ProgramFiles = Readonly<Record<'problem.yaml' | 'cases.yaml' | 'reference.py', string>>;
type Tensor = DescribedTensor;

/** KernelBench's own tolerances: 1e-4 in fp32 and 1e-2 in 16 bits, here in units of an output's root mean square. */
const RELATIVE = { fp32: 1e-4, half: 1e-2 };
/** A kernel may add in a different order from that of the fp32 reference, which makes its error a few times larger. */
const ROUNDING_ROOM = 8;
/** Limit on values in fp16, well below its largest number, 65504. */
const MOST_IN_FP16 = 16_384;

/** The files of the folder. Errors: NotImportable; INVALID_MANIFEST if the names do not fit problem.yaml. */
export function programFiles(imported: Program): ProgramFiles {
  const { id, file, form, program, described } = imported;
  const tensors = called(declaredOf(described, program));
  const files = {
    'problem.yaml': yamlText(problemOf(imported, tensors), [
      `${file} of ${program.benchmark}, imported: docs/imports.md says how.`,
      program.axesAre,
      ...(tensors.some(({ kind }) => kind === 'weight')
        ? [
            "Weights of the module are inputs: the kernel gets them, drawn like the others, in place of the module's own.",
          ]
        : []),
      ...described.ignored.map((name) => `${name} has no visible effect on the outputs.`),
      'Nobody has counted the operations: flops has one for each element.',
    ]),
    'cases.yaml': yamlText(casesOf(described, form), [
      "|got - want| <= atol + rtol * |want|. atol is in proportion to the outputs' size on the small cases.",
      `${setOf(form)} has the extents of the problem; canonical the same, as far as the reference fits in memory.`,
    ]),
    'reference.py': `${program.source.trimEnd()}\n${footer(program, described, tensors)}`,
  };
  const problem = parseProblem(files['problem.yaml'], `${id}/problem.yaml`);
  parseCases(files['cases.yaml'], `${id}/cases.yaml`, problem);
  return files;
}

/**
 * Gives the outputs the names that the problem declares. Errors: NotImportable if the tensors differ from the declared
 * ones.
 */
function declaredOf(described: DescribedProgram, { declared }: ForeignProgram): DescribedProgram {
  if (!declared) return described;
  const outputs = described.tensors.filter(({ kind }) => kind === 'output');
  if (outputs.length !== declared.outputs.length)
    throw new NotImportable(`outputs: must be ${declared.outputs.length}, and run returns ${outputs.length} tensors`);
  const name = (tensor: DescribedProgram['tensors'][number]): string =>
    tensor.kind === 'output' ? declared.outputs[outputs.indexOf(tensor)]! : tensor.name;
  const tensors = described.tensors.map((tensor) => ({ ...tensor, name: name(tensor) }));
  const unknown = tensors.find((tensor) => !entryOf(declared.dtypes, tensor.name));
  if (unknown) throw new NotImportable(`${unknown.name}: the definition has no such tensor`);
  return { ...described, tensors };
}

/**
 * Gives tensors names that are valid and that no axis has. A weight such as conv.bias becomes conv_bias. Errors:
 * NotImportable.
 */
function called({ tensors, axes }: DescribedProgram): Tensor[] {
  const taken = new Set(axes.map(({ name }) => name));
  return tensors.map((tensor, index) => {
    const own = tensor.name.replaceAll('.', '_').replace(/^_+/, '');
    const fits = /^[A-Za-z]\w{0,31}$/.test(own) && !taken.has(own);
    const name = fits ? own : `${tensor.kind}_${index}`;
    if (taken.has(name) || tensors.findIndex((each) => each.name === tensor.name) < index)
      throw new NotImportable(`${tensor.name}: another tensor has this name`);
    taken.add(name);
    return { ...tensor, called: name };
  });
}

function problemOf(
  { id, name, program: { benchmark, declared }, described }: Program,
  tensors: readonly Tensor[],
): Plain {
  const { axes } = described;
  const [first] = tensors;
  const all = ['fp32', ...(described.largest <= MOST_IN_FP16 ? ['fp16'] : []), 'bf16'];
  const own = (tensor: Tensor | undefined) => declared && entryOf(declared.dtypes, tensor!.name);
  const dtypeOf = (tensor: Tensor) => {
    if (tensor === first) return declared ? [own(first)] : all;
    return own(tensor) === own(first) ? `same_as(${first!.called})` : own(tensor);
  };
  return {
    id,
    title: `${name.replaceAll('_', ' ').trim()} of ${benchmark}`,
    axes: Object.fromEntries(
      axes.map(({ name, value, draw }) => [name, { draw, about: `${value} in ${benchmark}` }] as const),
    ),
    tensors: Object.fromEntries(
      tensors.map((tensor) => [
        tensor.called,
        {
          [tensor.kind === 'output' ? 'out' : 'in']: tensor.dims,
          dtype: dtypeOf(tensor),
          ...(tensor.kind !== 'output' && { role: tensor.kind === 'input' ? 'q' : 'k' }),
        },
      ]),
    ),
    mutants: mutantsOf(described, tensors),
    reference: { op: 'own' },
    work: {
      flops: tensors.map(({ dims }) => dims.map((dim) => (/ /.test(dim) ? `(${dim})` : dim)).join(' * ')).join(' + '),
    },
  };
}

const MOST_MUTANTS = 24;

function mutantsOf({ ignored }: DescribedProgram, tensors: readonly Tensor[]): Plain {
  const of = (kind: Tensor['kind']) => tensors.filter((tensor) => tensor.kind === kind);
  const mutants = [
    ...of('output').flatMap(({ called: name }): [string, Plain][] => [
      [`${name}_zero`, { tensor: name, constant: 0, about: 'nothing is computed' }],
      [`${name}_too_large`, { tensor: name, times: 1.0625, about: 'values are 1/16 too large' }],
      [`${name}_in_e5m2`, { tensor: name, round: 'e5m2', about: 'the output in 8 bits' }],
      [`${name}_unwritten`, { tensor: name, unwritten: 'element', about: 'a ragged end is not written' }],
    ]),
    ...of('input')
      .filter(({ name }) => !ignored.includes(name))
      .map(({ called: name }): [string, Plain] => [
        `${name}_ignored`,
        { tensor: name, constant: 0, about: 'the input is not read' },
      ]),
  ];
  return Object.fromEntries(mutants.slice(0, MOST_MUTANTS));
}

function casesOf(described: DescribedProgram, form: ProblemProgram): Plain {
  const { cases, canonical, axes, named, distributions, rms, roundingError, weightScale } = described;
  const [base] = cases;
  const drawn = (kind: keyof typeof INPUT_ABOUTS): [string, Plain] => [
    kind,
    {
      q: kind,
      k: 'normal',
      v: 'normal',
      ...(weightScale !== 1 && { key_scale: weightScale }),
      about: INPUT_ABOUTS[kind],
    },
  ];
  const [main, ...others] = distributions;
  const half = { atol: short(RELATIVE.half * rms), rtol: RELATIVE.half };
  const fp32 = { atol: short(Math.max(RELATIVE.fp32 * rms, ROUNDING_ROOM * roundingError)), rtol: RELATIVE.fp32 };
  return {
    tolerances: { parity: { ...half, bf16: { ...half, rtol: 2 * RELATIVE.half }, fp32 } },
    defaults: { set: 'parity', tolerance: 'parity', seeds: 2, distribution: main },
    distributions: Object.fromEntries([main!, ...others.slice(0, 1)].map(drawn)),
    probes: {
      shapes: cases.slice(1, 2).length > 0 ? cases.slice(1, 2) : [base],
      distributions: Object.fromEntries(others.slice(1).map(drawn)),
    },
    sets: {
      parity: cases,
      quick: [base],
      emulated: [cases.at(-1)],
      canonical: [canonical],
      [setOf(form)]: named ?? [Object.fromEntries(axes.map(({ name, value }) => [name, value]))],
    },
  };
}

/** The name of a case set, which must not contain a hyphen. */
const setOf = (form: ProblemProgram): string => form.replaceAll('-', '_');

/** Rounds to two digits. */
const short = (value: number): number => Number(value.toPrecision(2));

/** The function that the runner calls. Its names passed readDescription(), so they need no escapes in Python. */
function footer(program: ForeignProgram, described: DescribedProgram, tensors: readonly Tensor[]): string {
  const call = program.call(described, tensors);
  return `

# Added by the import: a case of problem.yaml as inputs of the program above, in double precision.
def reference(c):
    from flashcore_reference import ${call.function}

    ${call.function}(
        c,
${Object.entries(call.arguments)
  .map(([name, value]) => `        ${name}=${value},\n`)
  .join('')}    )
`;
}
