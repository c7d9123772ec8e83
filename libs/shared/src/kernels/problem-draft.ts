/**
 * Drafts a kernel folder for a problem of which there is no kernel yet. The kernel compiles, is launched with the
 * problem's tensors and computes nothing, so that the judge says which output is missing.
 */
import { DTYPES, ELEMENT_DTYPES, type ElementDtype, type TensorDtype } from '../data/dtype.ts';
import { evaluate } from '../data/expression.ts';
import { type CaseValues, caseValues } from '../problems/case-values.ts';
import { type Problem, type ProblemTensor, dtypeOfTensor } from '../problems/problem.ts';
import { entryOf } from '../text/entry-of.ts';
import { wrapped } from '../text/plain-text.ts';
import { NOTES_FILE } from './source-tree.ts';
import { MANIFEST_FILE } from './manifest.ts';

interface DraftOptions {
  readonly id: string;
  readonly problem: Problem;
  /** A case that the kernel must take: it names the axes and attributes that have another value than their default. */
  readonly taken: CaseValues;
  /** Attributes that are no integers in some case. */
  readonly fractions: ReadonlySet<string>;
}

const THREADS = 256;
const FIRST_DTYPE: TensorDtype = 'fp16';
const CPP_TYPES: Readonly<Record<ElementDtype, string>> = {
  fp16: 'half',
  bf16: '__nv_bfloat16',
  fp32: 'float',
  e4m3: '__nv_fp8_e4m3',
  e5m2: '__nv_fp8_e5m2',
  int8: 'signed char',
  int32: 'int',
};

/** The dtypes that a kernel of the problem may choose. */
const choicesOf = ({ tensors }: Problem): TensorDtype[] => [...new Set(tensors.flatMap(({ dtypes }) => dtypes))];

/** The files of the new folder: the manifest, the source and empty notes. */
export function draftOfProblem(options: DraftOptions): Record<string, string> {
  const draft = new KernelDraft(options);
  return {
    [MANIFEST_FILE]: draft.manifest(),
    [draft.source]: draft.code(),
    [NOTES_FILE]: `# ${options.id}\n\n## What it does, and why\n\n## What was measured\n`,
  };
}

interface Parameter {
  readonly name: string;
  /** The argument in the manifest. */
  readonly argument: string;
  /** The declaration in the source. */
  readonly declared: string;
  readonly about: string;
}

class KernelDraft {
  readonly source: string;
  readonly #id: string;
  readonly #problem: Problem;
  readonly #dtype: TensorDtype;
  readonly #tensors: readonly ProblemTensor[];
  readonly #output: ProblemTensor;
  readonly #parameters: readonly Parameter[];
  /** Axes and attributes that the kernel does not take, because they have defaults. */
  readonly #leftOut: readonly string[];

  constructor({ id, problem, taken, fractions }: DraftOptions) {
    this.#id = id;
    this.source = `${id}.cu`;
    this.#problem = problem;
    this.#dtype = choicesOf(problem)[0] ?? FIRST_DTYPE;
    const values = caseValues(problem, taken);
    this.#tensors = problem.tensors.filter(
      ({ optional, when }) => !optional && (when === undefined || evaluate(when, values) !== 0),
    );
    this.#output = this.#tensors.find(({ direction }) => direction === 'out')!;
    const ofOutput = new Set(this.#output.dims.flatMap(({ names }) => names));
    const axes = problem.axes.filter(
      ({ name, default: usual }) =>
        usual === undefined || ofOutput.has(name) || evaluate(usual, values) !== entryOf(values, name),
    );
    const attributes = problem.attributes.filter(
      ({ name, value, default: usual }) => value !== undefined || entryOf(values, name) !== usual,
    );
    const named = new Set([...axes, ...attributes].map(({ name }) => name));
    this.#leftOut = [...problem.axes, ...problem.attributes].flatMap(({ name }) => (named.has(name) ? [] : [name]));
    this.#parameters = [
      ...this.#tensors.map((tensor) => this.#pointer(tensor)),
      ...axes.map(({ name, about }) => scalar(name, { type: 'int', argument: name, about })),
      ...attributes.map(({ name, about, value }) => {
        const isFraction = value !== undefined || fractions.has(name);
        const argument = value === undefined && isFraction ? `{ float32: ${name} }` : name;
        return scalar(name, { type: isFraction ? 'float' : 'int', argument, about });
      }),
    ];
  }

  manifest(): string {
    const { title, id } = this.#problem;
    const { name, dims } = this.#output;
    const elements = dims.map(({ text }) => (isName(text) ? text : `(${text})`)).join(' * ');
    const others = choicesOf(this.#problem).slice(1);
    return `${[
      `id: ${this.#id}`,
      `title: ${JSON.stringify(title)}`,
      'lesson: "nothing yet"',
      `problem: ${id}`,
      `source: ${this.source}`,
      'min_arch: sm_80',
      ...(others.length > 0 ? [`# The problem also has kernels of ${others.join(', ')}.`] : []),
      `math: { inputs: ${this.#dtype}, accumulate: fp32 }`,
      'launches:',
      `  - entry: ${this.#id}`,
      `    # A thread for each element of ${name}.`,
      `    grid: ["ceil(${elements} / ${THREADS})", 1, 1]`,
      `    block: [${THREADS}, 1, 1]`,
      ...(this.#leftOut.length > 0
        ? [
            `    # Only cases in which ${this.#leftOut.join(', ')} have their defaults are run.`,
            '    # Arguments of these names let it take others, too.',
          ]
        : []),
      '    arguments:',
      ...this.#parameters.map(({ argument }) => `      - ${argument}`),
      'toggle: "no tensor cores"',
    ].join('\n')}\n`;
  }

  code(): string {
    const { name, dims } = this.#output;
    const rest = this.#tensors.filter((each) => each.direction === 'out' && each !== this.#output);
    const width = Math.max(...this.#parameters.map(({ declared }) => declared.length)) + 1;
    const open = `extern "C" __global__ void ${this.#id}(`;
    const lines = this.#parameters.map(({ declared, about }, index) => {
      const end = index === this.#parameters.length - 1 ? ')' : ',';
      return `    ${`${declared}${end}`.padEnd(width)}  // ${about}`;
    });
    const known = new Set(this.#parameters.map((each) => each.name));
    const isCounted = dims.every(({ text }) => isName(text) && known.has(text));
    return `${[
      // Without backslashes, which would continue the comment on the next line.
      ...wrapped(this.#problem.title.replaceAll(/[\s\\]+/g, ' '), COMMENT_WIDTH).map((line) => `// ${line}`),
      '//',
      '// Tensors are contiguous, and their last dimension is the innermost one. Before each launch every output is filled',
      '// with numbers that count as never written, and the judge compares each element with the reference.',
      ...this.#headers().map((header) => `#include <${header}>`),
      '',
      open,
      ...lines,
      '{',
      `  // The element of ${name} that this thread computes. The last CTA has more threads than there are elements.`,
      '  const size_t element = (size_t)blockIdx.x * blockDim.x + threadIdx.x;',
      ...(isCounted
        ? [`  if (element >= (size_t)${dims.map(({ text }) => parameterName(text)).join(' * ')}) return;`]
        : [`  // TODO: return unless element < ${dims.map(({ text }) => text).join(' * ')}`, '  (void)element;']),
      '',
      `  // TODO: compute the element in fp32, and write it: ${parameterName(name)}[element] = ...`,
      ...rest.map((output) => `  // TODO: write ${parameterName(output.name)} too, each element once.`),
      '}',
    ].join('\n')}\n`;
  }

  #pointer(tensor: ProblemTensor): Parameter {
    const { name, direction, dims } = tensor;
    const type = CPP_TYPES[dtypeOfTensor(tensor, this.#dtype)];
    return {
      name,
      argument: name,
      declared: `${direction === 'in' ? 'const ' : ''}${type}* ${parameterName(name)}`,
      about: `[${dims.map(({ text }) => text).join(', ')}]${direction === 'in' ? '' : ', to be written'}`,
    };
  }

  #headers(): string[] {
    const dtypes = new Set(this.#tensors.map((tensor) => dtypeOfTensor(tensor, this.#dtype)));
    return ELEMENT_DTYPES.filter((dtype) => dtypes.has(dtype))
      .flatMap((dtype) => (dtype === 'int32' ? [] : (DTYPES[dtype].header ?? [])))
      .filter((header, index, all) => all.indexOf(header) === index);
  }
}

interface Scalar {
  readonly type: string;
  readonly argument: string;
  readonly about: string;
}

function scalar(name: string, { type, argument, about }: Scalar): Parameter {
  return { name, argument, declared: `${type} ${parameterName(name)}`, about: about.replaceAll(/\s+/g, ' ') };
}

const isName = (text: string): boolean => /^[A-Za-z_]\w*$/.test(text);

/** Names that an axis may have, and a parameter in C++ may not. */
const KEYWORDS = new Set(
  'auto bool break case char class const continue delete do double else enum export extern false float for friend goto half if inline int long namespace new operator or and not xor private public register return short signed sizeof static struct switch template this true try typedef union unsigned using void volatile while'.split(
    ' ',
  ),
);
const parameterName = (name: string): string => (KEYWORDS.has(name) ? `${name}_` : name);

const COMMENT_WIDTH = 117;
