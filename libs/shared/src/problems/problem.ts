/** problem.yaml: axes, attributes and tensors of a problem, and the amount of its work. It is data only. */
import type { ElementDtype, TensorDtype } from '../data/dtype.ts';
import { type Expression, ExpressionError, parseExpression, valueOr } from '../data/expression.ts';
import { MAX_FAULTS, type YamlFault, formatKey, parseYamlFile } from '../data/yaml-file.ts';
import { didYouMean } from '../text/nearest-names.ts';
import { type MutantReader, type ProblemMutant, readMutants } from './mutants.ts';
import { type Operands, readOperands } from './operands.ts';
import {
  type AxisDraw,
  type Baseline,
  type Operation,
  type OtherDtypes,
  type RawProblem,
  SYMMETRY_ACTS,
  type SymmetryAct,
  type TensorRole,
  problemSchema,
} from './problem-schema.ts';
import { type RuleReader, type TensorRules, tensorRules } from './tensor-rules.ts';
import { entryOf } from '../text/entry-of.ts';

export type { AxisDraw, Operation, SymmetryAct, TensorRole };

/** Name in `work.bytes` for the bytes of an element of the kernel's dtype. */
export const DTYPE_SIZE = 'dtype_bytes';

/** Name in an attribute's `draw` for a number from 0 up to 1, drawn for each shape. */
export const RANDOM = 'random';

/** Extents are passed to kernels as int32. */
export const MAX_EXTENT = 2 ** 31 - 1;

export interface Problem {
  readonly id: string;
  readonly title: string;
  /** Axes in the file's order. */
  readonly axes: readonly ProblemAxis[];
  readonly attributes: readonly ProblemAttribute[];
  readonly require: readonly ProblemLimit[];
  readonly tensors: readonly ProblemTensor[];
  readonly symmetries: readonly ProblemSymmetry[];
  /** Mistakes that the problem's cases must find. */
  readonly mutants: readonly ProblemMutant[];
  /** Computes the expected outputs. */
  readonly operation: Operation;
  /** Tensors of the operation. */
  readonly operands: Operands;
  /** Seconds that the problem's own reference may take for a case; undefined: as many as the case's size suggests. */
  readonly referenceLimitS?: number | undefined;
  /** Floating-point operations of a case, as an expression over axes and attributes. */
  readonly flops: Expression;
  /** Minimum traffic with device memory, over axes, attributes and DTYPE_SIZE; undefined: every tensor once. */
  readonly bytes: Expression | undefined;
  /** The baselines that the runner times along with kernels, on the cases that they compute. */
  readonly baselines: readonly Baseline[];
  /** Axes with a default, each after the axes that its default names. */
  readonly defaults: readonly DefaultAxis[];
  /** The problem's files if a kernel brought it along; undefined if it is installed. */
  readonly brought?: ProblemFiles | undefined;
}

/** The texts of a problem's folder. */
export interface ProblemFiles {
  readonly 'problem.yaml': string;
  readonly 'cases.yaml'?: string | undefined;
  readonly 'reference.cpp'?: string | undefined;
  readonly 'reference.py'?: string | undefined;
}

export interface ProblemAxis {
  readonly name: string;
  /** Undefined if every case must give the extent. */
  readonly default: Expression | undefined;
  readonly draw: AxisDraw;
  /**
   * Whether results along the axis are independent, as they always are along a `count`: large inputs may repeat along
   * it.
   */
  readonly independent: boolean;
  readonly about: string;
}
type DefaultAxis = ProblemAxis & { readonly default: Expression };

interface ProblemAttribute {
  readonly name: string;
  /** An expression over axes; undefined if a case gives the value. */
  readonly value: Expression | undefined;
  /** The value if a case gives none. */
  readonly default: number;
  /** Values for ranked runs, over axes, the attributes before this one and RANDOM; empty: the default. */
  readonly draw: readonly Expression[];
  readonly about: string;
}

/** A condition that every case of the problem fulfills. */
interface ProblemLimit {
  readonly require: Expression;
  readonly because: string;
}

/**
 * A change of several tensors together after which correct outputs are still correct. The judge uses it to make the
 * inputs of each timed launch, and so knows the expected outputs without calling the reference again.
 */
export interface ProblemSymmetry {
  readonly act: SymmetryAct;
  readonly axis: string;
  /** Dimensions along the axis, by tensor. */
  readonly dims: Readonly<Record<string, readonly number[]>>;
  /** Undefined if the symmetry holds in every case. */
  readonly when: Expression | undefined;
  /** The symmetry's place in messages: file, line and key. */
  readonly place?: string;
}

/** A contiguous tensor. */
export interface ProblemTensor extends TensorRules {
  readonly name: string;
  readonly direction: 'in' | 'out';
  readonly role: TensorRole;
  /** The extents as expressions over axes, outermost first. */
  readonly dims: readonly Expression[];
  /** Number formats that a kernel may choose; empty if the tensor has its own. */
  readonly dtypes: readonly TensorDtype[];
  /** The tensor's dtype for every kernel; undefined: the kernel's dtype. */
  readonly ownDtype: ElementDtype | undefined;
  /** The tensor's dtypes for kernels of some dtypes; empty for a tensor with one dtype for every kernel. */
  readonly otherDtypes: OtherDtypes;
  /** Whether only kernels that take this output as an argument have it. */
  readonly optional: boolean;
  /** Condition: cases for which this is not 0 have the input; undefined: every case has it. */
  readonly when: Expression | undefined;
  /** The output's tolerance profile in cases.yaml; undefined: the request's profile. */
  readonly tolerance: string | undefined;
  /** How often an honest kernel rounds an element of the output to its dtype; undefined: that is not judged. */
  readonly rounds: number | undefined;
}

/** Parses a problem.yaml; error messages show `path`. Errors: INVALID_MANIFEST with path and key. */
export function parseProblem(yamlText: string, path: string): Problem {
  const file = parseYamlFile(yamlText, path, problemSchema);
  const compiler = new ProblemCompiler(file.value);
  const problem = compiler.compile();
  if (compiler.faults.length > 0) throw file.refuse(compiler.faults);
  const placeOf = (key: Key): string => `${path}:${file.lineOf(key)}: ${formatKey(key)}`;
  return {
    ...problem,
    mutants: problem.mutants.map((mutant) => ({ ...mutant, place: placeOf(['mutants', mutant.name]) })),
    symmetries: problem.symmetries.map((symmetry, index) => ({ ...symmetry, place: placeOf(['symmetries', index]) })),
  };
}

/** The names of axes and attributes, which expressions over a problem may use. */
export const problemNames = ({ axes, attributes }: Problem): string[] =>
  [...axes, ...attributes].map(({ name }) => name);

type Key = (string | number)[];

class ProblemCompiler {
  readonly faults: YamlFault[] = [];
  readonly #raw: RawProblem;
  readonly #axes: ReadonlySet<string>;
  readonly #reader: RuleReader;

  constructor(raw: RawProblem) {
    this.#raw = raw;
    this.#axes = new Set(Object.keys(raw.axes));
    this.#reader = {
      tensors: raw.tensors,
      extent: (text, key) => this.#extent(text, key),
      fault: (key, message) => this.#fault(key, message),
    };
  }

  compile(): Problem {
    const { id, title, ...raw } = this.#raw;
    this.#refuseNameClashes();
    const axes = Object.entries(raw.axes).map(([name, { default: written, draw, independent, about }]) => ({
      name,
      default: written === undefined ? undefined : this.#extent(written, ['axes', name, 'default']),
      draw,
      independent,
      about,
    }));
    const names = new Set(this.#axes);
    const attributes = Object.entries(raw.attributes).map(([name, { value, default: fallback, draw, about }]) => {
      const drawn = draw.map((text, index) =>
        this.#parse(text, ['attributes', name, 'draw', index], new Set([...names, RANDOM])),
      );
      names.add(name);
      return {
        name,
        value: value === undefined ? undefined : this.#parse(value, ['attributes', name, 'value']),
        default: fallback,
        draw: drawn,
        about,
      };
    });
    return {
      id,
      title,
      axes,
      attributes,
      require: raw.require.map(({ require, because }, index) => ({
        require: this.#parse(require, ['require', index, 'require'], names),
        because,
      })),
      tensors: Object.entries(raw.tensors).map(([name, written]) => ({
        name,
        direction: written.in ? 'in' : 'out',
        role: written.role,
        dims: (written.in ?? written.out)!.map((text, index) =>
          this.#extent(text, ['tensors', name, written.in ? 'in' : 'out', index]),
        ),
        ...this.#dtypes(name),
        optional: written.optional,
        when: written.when === undefined ? undefined : this.#parse(written.when, ['tensors', name, 'when'], names),
        tolerance: written.tolerance,
        rounds: written.rounds,
        ...tensorRules(name, this.#reader),
      })),
      symmetries: this.#symmetries(),
      mutants: readMutants(this.#raw, this.#mutantReader(names)),
      operation: raw.reference.op,
      operands: readOperands(this.#raw, (key, message) => this.#fault(key, message)),
      ...(raw.reference.limit_s !== undefined && { referenceLimitS: raw.reference.limit_s }),
      flops: this.#parse(raw.work.flops, ['work', 'flops'], names),
      bytes:
        raw.work.bytes === undefined
          ? undefined
          : this.#parse(raw.work.bytes, ['work', 'bytes'], new Set([...names, DTYPE_SIZE])),
      baselines: this.#baselines(),
      defaults: this.#inOrder(axes.filter((axis): axis is DefaultAxis => axis.default !== undefined)),
    };
  }

  #mutantReader(names: ReadonlySet<string>): MutantReader {
    return {
      parse: (text, key, more = []) => this.#parse(text, key, new Set([...names, ...more])),
      fault: (key, message) => this.#fault(key, message),
    };
  }

  #fault(key: Key, message: string): void {
    if (this.faults.length < MAX_FAULTS) this.faults.push({ key, message });
  }

  #parse(text: string, key: Key, known: ReadonlySet<string> = this.#axes): Expression {
    try {
      const expression = parseExpression(text);
      for (const name of expression.names)
        if (!known.has(name))
          this.#fault(
            key,
            `unknown axis "${name}" in "${text}"${didYouMean(name, known) || `: known are ${[...known].join(', ')}`}; add it to \`axes\``,
          );
      return expression;
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      this.#fault(key, `${error.message}, in "${text}"`);
      return parseExpression('1');
    }
  }

  /** Parses an extent. If it depends on no axis, its value is checked too. */
  #extent(text: string, key: Key): Expression {
    const expression = this.#parse(text, key);
    const wrong = expression.names.length > 0 ? undefined : extentProblem(valueOr(Number.NaN, expression, {}));
    if (wrong) this.#fault(key, wrong);
    return expression;
  }

  #dtypes(name: string): Pick<ProblemTensor, 'dtypes' | 'ownDtype' | 'otherDtypes'> {
    const seen = new Set<string>();
    const none = { dtypes: [], ownDtype: undefined, otherDtypes: {} };
    let otherDtypes: OtherDtypes = {};
    for (let at = name; ;) {
      const written = entryOf(this.#raw.tensors, at)!.dtype;
      if (Array.isArray(written)) return { dtypes: written, ownDtype: undefined, otherDtypes };
      if ('own' in written) return { dtypes: [], ownDtype: written.own, otherDtypes: {} };
      seen.add(at);
      const { sameAs } = written;
      // A tensor's own entry takes precedence over an entry of the tensor that its `same_as` names.
      otherDtypes = { ...written.others, ...otherDtypes };
      const others = Object.keys(this.#raw.tensors);
      if (!others.includes(sameAs)) {
        const remedy = didYouMean(sameAs, others) || `: known are ${others.join(', ')}`;
        this.#fault(['tensors', name, 'dtype'], `unknown tensor "${sameAs}"${remedy}`);
        return none;
      }
      if (seen.has(sameAs)) {
        const cycle = [...seen, sameAs].join(' -> ');
        this.#fault(['tensors', name, 'dtype'], `same_as forms a cycle (${cycle}): give one of them a list`);
        return none;
      }
      at = sameAs;
    }
  }

  /** Refuses a baseline of a problem that SDPA cannot compute, because SDPA is called with the extents of Q. */
  #baselines(): readonly Baseline[] {
    const { baselines, reference, tensors } = this.#raw;
    for (const [index, name] of baselines.entries()) {
      const isCalled =
        reference.op === 'attention' &&
        (['q', 'k', 'v', 'o'] as const).every((operand) => {
          const { tensor, axes } = reference[operand] ?? {};
          return tensor === operand.toUpperCase() && axes?.join(' ') === 'b h s d';
        }) &&
        entryOf(tensors, 'Q')?.in?.join() === 'B,H,S,D';
      if (!isCalled)
        this.#fault(
          ['baselines', index],
          `${name} computes \`op: attention\` of Q, K, V and O as [b h s d] with Q: { in: [B, H, S, D] }: leave it out`,
        );
    }
    return baselines;
  }

  #symmetries(): ProblemSymmetry[] {
    const tensors = Object.entries(this.#raw.tensors);
    const names = tensors.map(([name]) => name);
    const known = new Set([...this.#axes, ...Object.keys(this.#raw.attributes)]);
    return this.#raw.symmetries.map(({ of, when, ...acts }, index): ProblemSymmetry => {
      const key = ['symmetries', index];
      const act = SYMMETRY_ACTS.find((each) => acts[each] !== undefined)!;
      const axis = acts[act]!;
      for (const name of of ?? [])
        if (!names.includes(name))
          this.#fault(
            [...key, 'of'],
            `unknown tensor "${name}"${didYouMean(name, names) || `: known are ${names.join(', ')}`}`,
          );
      const dims = Object.fromEntries(
        tensors
          .filter(([name]) => of === undefined || of.includes(name))
          .map(([name, written]): [string, number[]] => [
            name,
            (written.in ?? written.out)!.flatMap((text, dim) => (text.trim() === axis ? [dim] : [])),
          ])
          .filter(([, along]) => along.length > 0),
      );
      if (!this.#axes.has(axis))
        this.#fault([...key, act], `unknown axis "${axis}"${didYouMean(axis, this.#axes)}: name one of \`axes\``);
      else if (!Object.keys(dims).some((name) => entryOf(this.#raw.tensors, name)!.in))
        this.#fault([...key, act], `no input that it names has a dimension ${axis}: it would change nothing`);
      const missing = (of ?? []).filter((name) => names.includes(name) && !Object.hasOwn(dims, name));
      if (missing.length > 0)
        this.#fault([...key, 'of'], `${missing.join(', ')} has no dimension ${axis}: leave it out`);
      const tables = act === 'permute' ? [] : Object.keys(dims).filter((name) => this.#isTable(name));
      if (tables.length > 0)
        this.#fault(
          [...key, of === undefined ? act : 'of'],
          `it would change the int32 numbers of ${tables.join(', ')}: name the other tensors with \`of\``,
        );
      return { act, axis, dims, when: when === undefined ? undefined : this.#parse(when, [...key, 'when'], known) };
    });
  }

  #isTable(name: string): boolean {
    const { dtype } = entryOf(this.#raw.tensors, name)!;
    return 'own' in dtype && dtype.own === 'int32';
  }

  #inOrder(axes: readonly DefaultAxis[]): DefaultAxis[] {
    const ordered: DefaultAxis[] = [];
    let rest = [...axes];
    while (rest.length > 0) {
      const waiting = new Set(rest.map(({ name }) => name));
      const ready = rest.filter((axis) => !axis.default.names.some((name) => waiting.has(name)));
      if (ready.length === 0) {
        const names = rest.map(({ name }) => name).join(', ');
        this.#fault(
          ['axes', rest[0]!.name, 'default'],
          `the defaults of ${names} need each other: leave one without a default`,
        );
        return ordered;
      }
      ordered.push(...ready);
      rest = rest.filter((axis) => !ready.includes(axis));
    }
    return ordered;
  }

  #refuseNameClashes(): void {
    const taken = new Map<string, string>();
    for (const group of ['axes', 'attributes', 'tensors'] as const)
      for (const name of Object.keys(this.#raw[group])) {
        const holder = taken.get(name);
        if (holder) this.#fault([group, name], `the name "${name}" is taken by ${holder}: choose another`);
        else taken.set(name, group);
      }
  }
}

/** A tensor's dtype for a kernel of a dtype. */
export const dtypeOfTensor = (
  { ownDtype, otherDtypes }: Pick<ProblemTensor, 'ownDtype' | 'otherDtypes'>,
  dtype: TensorDtype,
): ElementDtype => ownDtype ?? otherDtypes[dtype] ?? dtype;

/** Why a number cannot be an extent of an axis; undefined if it can. */
export const extentProblem = (extent: number): string | undefined =>
  Number.isInteger(extent) && extent >= 1 && extent <= MAX_EXTENT
    ? undefined
    : `must be an integer of 1 to ${MAX_EXTENT}, got ${extent}`;
