/** The folder of a problem whose reference is a foreign Python program: problem.yaml, cases.yaml, reference.py. */
import { parseCases, parseProblem } from '@flashcore/shared/kernels';
import { NotImportable } from './attention-forms.ts';
import { INPUT_ABOUTS, type DescribedProgram } from './described-program.ts';
import { yamlText, type Plain } from './yaml-text.ts';

interface Program {
  readonly id: string;
  /** Name of the file in messages and comments. */
  readonly file: string;
  readonly source: string;
  readonly described: DescribedProgram;
}

type ProgramFiles = Readonly<Record<'problem.yaml' | 'cases.yaml' | 'reference.py', string>>;
type Tensor = DescribedProgram['tensors'][number] & {
  /** Its name in problem.yaml. */
  readonly called: string;
};

/** KernelBench's own limits: 1e-4 in fp32 and 1e-2 in 16 bits, here in units of an output's size. */
const RELATIVE = { fp32: 1e-4, half: 1e-2 };
/** A kernel may add in another order than the reference in fp32, which makes its error a few times larger. */
const ROUNDING_ROOM = 8;
/** fp16 ends at 65504. */
const MOST_IN_FP16 = 16_384;

/** Errors: NotImportable; INVALID_MANIFEST if the names do not fit problem.yaml. */
export function programFiles(program: Program): ProgramFiles {
  const { id, file, source, described } = program;
  const tensors = called(described);
  const files = {
    'problem.yaml': yamlText(problemOf(program, tensors), [
      `${file} of KernelBench, imported: docs/imports.md says how.`,
      'Axes are the integers at the top of the file that its inputs follow from; other extents are constants.',
      ...(tensors.some(({ kind }) => kind === 'weight')
        ? [
            "Weights of the module are inputs: the kernel gets them, drawn like the others, in place of the module's own.",
          ]
        : []),
      ...described.ignored.map((name) => `${name} has no visible effect on the outputs.`),
      'Nobody has counted the operations: flops has one for each element.',
    ]),
    'cases.yaml': yamlText(casesOf(described), [
      "|got - want| <= atol + rtol * |want|. atol is in proportion to the outputs' size on the small cases.",
      'kernelbench has the extents of the file; canonical the same, halved until the reference fits in memory.',
    ]),
    'reference.py': `${source.trimEnd()}\n${footer(described, tensors)}`,
  };
  const problem = parseProblem(files['problem.yaml'], `${id}/problem.yaml`);
  parseCases(files['cases.yaml'], `${id}/cases.yaml`, problem);
  return files;
}

/** Tensors with names that no axis has. A weight such as conv.bias becomes conv_bias. Errors: NotImportable. */
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

function problemOf({ id, file, described }: Program, tensors: readonly Tensor[]): Plain {
  const { axes } = described;
  const [first] = tensors;
  const dtypes = ['fp32', ...(described.largest <= MOST_IN_FP16 ? ['fp16'] : []), 'bf16'];
  return {
    id,
    title: `${file.replace(/\.py$/, '').replace(/^.*\//, '').replaceAll('_', ' ').trim()} of KernelBench`,
    axes: Object.fromEntries(
      axes.map(({ name, value, draw }) => [name, { draw, about: `${value} in KernelBench` }] as const),
    ),
    tensors: Object.fromEntries(
      tensors.map((tensor) => [
        tensor.called,
        {
          [tensor.kind === 'output' ? 'out' : 'in']: tensor.dims,
          dtype: tensor === first ? dtypes : `same_as(${first!.called})`,
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

function casesOf({ cases, canonical, axes, distributions, rms, roundingError, weightScale }: DescribedProgram): Plain {
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
      kernelbench: [Object.fromEntries(axes.map(({ name, value }) => [name, value]))],
    },
  };
}

/** Two digits. */
const short = (value: number): number => Number(value.toPrecision(2));

/** The function that the runner calls. The names are those of readDescription(), and so need no escapes in Python. */
function footer({ axes }: DescribedProgram, tensors: readonly Tensor[]): string {
  const of = (kind: Tensor['kind']) => tensors.filter((tensor) => tensor.kind === kind);
  const list = (names: readonly string[]) => `[${names.map((name) => `"${name}"`).join(', ')}]`;
  return `

# Added by the import: a case of problem.yaml as inputs and weights of the module above, in double precision.
def reference(c):
    from flashcore_reference import run_model

    run_model(
        c,
        axes=${list(axes.map(({ name }) => name))},
        inputs=${list(of('input').map(({ called: name }) => name))},
        weights={${of('weight')
          .map(({ name, called: tensor }) => `"${name}": "${tensor}"`)
          .join(', ')}},
        outputs=${list(of('output').map(({ called: name }) => name))},
    )
`;
}
