/** Parses the expressions of a manifest and refuses undefined names. */
import { DTYPE_BYTES, TENSOR_DTYPES, type TensorDtype, fillOf } from '../data/dtype.ts';
import { type Expression, ExpressionError, FUNCTION_NAMES, parseExpression } from '../data/expression.ts';
import type { Swizzle } from './launch-limits.ts';
import {
  type Manifest,
  type ManifestArgument,
  type ManifestLaunch,
  type NumberKind,
  type PlainManifestArgument,
  type StructField,
  type TensorName,
  argumentBytes,
} from './manifest-model.ts';
import { type RawLaunch, type RawManifest, singleLaunches } from './manifest-schema.ts';
import { didYouMean } from '../text/nearest-names.ts';
import { type Problem, problemNames } from '../problems/problem.ts';
import { MAX_FAULTS, type YamlFault, formatKey } from '../data/yaml-file.ts';

/** Matches a name in an expression; the "e3" of 1e3 is not a name. */
const NAME = /(?<![\w.])[A-Za-z_]\w*/g;

/** Alignment of a CUtensorMap (cuda.h). */
const TENSOR_MAP_ALIGNMENT = 64;

type Key = (string | number)[];
type Compiled = Pick<
  Manifest,
  'problem' | 'uses' | 'math' | 'limits' | 'layouts' | 'workspace' | 'constants' | 'launches'
>;
type RawArgument = RawLaunch['arguments'][number];
type RawTensorOfVariants = Extract<RawArgument, { when: string }>;
type RawStruct = Extract<RawArgument, { struct: unknown }>['struct'];
type RawPlainArgument = RawStruct['fields'][string]['value'];

/**
 * Parses all expressions. `faults` lists every wrong one by its key. `compiled` is usable only if there are no faults.
 */
export function compileExpressions(raw: RawManifest, problem: Problem): { compiled: Compiled; faults: YamlFault[] } {
  const faults = nameClashes(raw, problem);
  const names = new Set<string>([...problemNames(problem), ...Object.keys(raw.parameters)]);
  const uses = new Set<string>();
  const parse = (text: string, key: Key, known: ReadonlySet<string> = names): Expression => {
    if (faults.length >= MAX_FAULTS) return parseExpression('0');
    try {
      const expression = parseExpression(text);
      for (const name of expression.names) {
        uses.add(name);
        if (!known.has(name) && faults.length < MAX_FAULTS)
          faults.push({
            key,
            message: `unknown name "${name}" in "${text}"${didYouMean(name, known) || `: known are ${[...known].join(', ')}`}`,
          });
      }
      return expression;
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      faults.push({ key, message: `${error.message}, in "${text}"` });
      return parseExpression('0');
    }
  };

  const { inputs, accumulate } = raw.math;
  // Only parameters may be used, because neither the tensors' dtype nor the accumulator's may depend on the shape.
  const parameters = new Set(Object.keys(raw.parameters));
  const dtypeWhen = (dtype: TensorDtype, text: string | undefined) =>
    text === undefined ? [] : [{ dtype, when: parse(text, ['math', 'inputs', `${dtype}_when`], parameters) }];
  const math: Manifest['math'] = {
    inputs:
      typeof inputs === 'string'
        ? inputs
        : TENSOR_DTYPES.flatMap((dtype) => (dtype === 'fp16' ? [] : dtypeWhen(dtype, inputs[`${dtype}_when`]))),
    accumulate:
      typeof accumulate === 'string'
        ? accumulate
        : { fp32When: parse(accumulate.fp32_when, ['math', 'accumulate', 'fp32_when'], parameters) },
  };

  const dtypes =
    typeof math.inputs === 'string' ? [math.inputs] : ['fp16' as const, ...math.inputs.map((each) => each.dtype)];
  for (const dtype of dtypes) {
    const other = problem.tensors.find(({ dtypes, ownDtype }) => !ownDtype && !dtypes.includes(dtype));
    if (other)
      faults.push({
        key: ['math', 'inputs'],
        message: `${other.name} of ${problem.id} is ${other.dtypes.join(' or ')}, got ${dtype}`,
      });
  }

  // In order: a constant may use the constants before it.
  const ofShape = new Set<string>(problemNames(problem));
  const constants = Object.entries(raw.constants).map(([name, text]) => {
    const value = parse(text, ['constants', name]);
    names.add(name);
    if (value.names.some((used) => ofShape.has(used))) ofShape.add(name);
    return { name, value, ofShape: ofShape.has(name) };
  });
  const limits = raw.limits.map(({ require, because }, index) => ({
    require: parse(require, ['limits', index, 'require']),
    because,
  }));
  const layouts = Object.entries(raw.layouts).flatMap(([name, written]) => {
    const key = ['layouts', name];
    const when = written.when === undefined ? undefined : parse(written.when, [...key, 'when'], parameters);
    const tensor = problem.tensors.find((each) => each.name === name);
    if (!tensor) {
      const known = problem.tensors.map((each) => each.name);
      const remedy = didYouMean(name, known) || `: known are ${known.join(', ')}`;
      faults.push({ key, message: `unknown tensor "${name}"${remedy}` });
      return [];
    }
    const order = orderOf(written.order, tensor);
    if (!order) {
      const dims = tensor.dims.map(({ text }) => text).join(', ');
      faults.push({
        key: written.when === undefined ? key : [...key, 'order'],
        message: `must have each dimension of ${name} [${dims}] once, got [${written.order.join(', ')}]`,
      });
    }
    return order ? [{ tensor: name, order, when }] : [];
  });
  const workspace = Object.entries(raw.workspace).map(([name, written]) => {
    if (typeof written === 'string') return { name, bytes: parse(written, ['workspace', name]), initial: undefined };
    const { dtype, shape, initial } = written;
    // Parse each extent separately first, so that a fault names the wrong one.
    const before = faults.length;
    for (const [axis, extent] of shape.entries()) parse(extent, ['workspace', name, 'shape', axis]);
    const elements = faults.length > before ? '0' : shape.map((extent) => `(${extent})`).join(' * ');
    return {
      name,
      bytes: parse(`${elements} * ${DTYPE_BYTES[dtype]}`, ['workspace', name, 'shape']),
      initial: initial === undefined ? undefined : fillOf(initial, dtype),
    };
  });
  const compiler = new LaunchCompiler(parse, {
    problem,
    workspaces: Object.keys(raw.workspace),
    parameters: new Set(Object.keys(raw.parameters)),
    values: names,
    layouts,
    uses,
    faults,
  });
  const launches = singleLaunches(raw.launches).map((launch) => compiler.compile(launch));
  return { compiled: { problem, uses, math, constants, limits, layouts, workspace, launches }, faults };
}

/**
 * The written dimensions as indices of the tensor's dimensions; undefined unless each dimension is written exactly
 * once.
 */
function orderOf(written: readonly string[], { dims }: Problem['tensors'][number]): number[] | undefined {
  const left = dims.map(({ text }, index) => ({ text, index }));
  const order = written.map((text) => {
    const at = left.findIndex((each) => each.text === text);
    return at < 0 ? -1 : left.splice(at, 1)[0]!.index;
  });
  return left.length === 0 && !order.includes(-1) ? order : undefined;
}

/** Axes, attributes, tensors, parameters, constants and workspaces share one set of names. */
function nameClashes(raw: RawManifest, problem: Problem): YamlFault[] {
  const ofProblem = [...problemNames(problem), ...problem.tensors.map(({ name }) => name)];
  const taken = new Map<string, string>(ofProblem.map((name) => [name, `the problem ${problem.id}`]));
  return (['parameters', 'constants', 'workspace'] as const).flatMap((group) =>
    Object.keys(raw[group]).flatMap((name) => {
      const holder = taken.get(name);
      taken.set(name, holder ?? group);
      return holder ? [{ key: [group, name], message: `the name "${name}" is taken by ${holder}` }] : [];
    }),
  );
}

interface LaunchNames {
  problem: Problem;
  workspaces: readonly string[];
  parameters: ReadonlySet<string>;
  /** Names of axes, attributes, parameters and constants. */
  values: ReadonlySet<string>;
  /**
   * Axes and attributes that the manifest uses, including those that decide whether a case has a tensor of a launch.
   */
  uses: Set<string>;
  layouts: Manifest['layouts'];
  faults: YamlFault[];
}

class LaunchCompiler {
  readonly #parse: (text: string, key: Key) => Expression;
  readonly #tensors: readonly string[];
  /** For each tensor that only some cases have, the condition that decides it. */
  readonly #when: ReadonlyMap<string, Expression>;
  /** Attributes that the problem computes, which are floats. */
  readonly #computed: ReadonlySet<string>;
  readonly #workspaces: readonly string[];
  readonly #parameters: ReadonlySet<string>;
  readonly #values: ReadonlySet<string>;
  readonly #uses: Set<string>;
  readonly #layouts: Manifest['layouts'];
  readonly #faults: YamlFault[];
  /** The expressions behind the current launch's own names. */
  #with: ReadonlyMap<string, string> = new Map();

  constructor(
    parse: (text: string, key: Key) => Expression,
    { problem, workspaces, parameters, values, uses, layouts, faults }: LaunchNames,
  ) {
    this.#parse = parse;
    this.#tensors = problem.tensors.map(({ name }) => name);
    this.#when = new Map(problem.tensors.flatMap(({ name, when }) => (when ? [[name, when] as const] : [])));
    this.#computed = new Set(problem.attributes.filter(({ value }) => value !== undefined).map(({ name }) => name));
    this.#workspaces = workspaces;
    this.#parameters = parameters;
    this.#values = values;
    this.#uses = uses;
    this.#layouts = layouts;
    this.#faults = faults;
  }

  compile(launch: RawLaunch): ManifestLaunch {
    const { key, sharedKey } = launch;
    this.#with = this.#parsedNames(launch);
    const three = (texts: [string, string, string], at: Key) =>
      texts.map((text, axis) => this.#shared(text, [...at, axis])) as unknown as [Expression, Expression, Expression];
    return {
      key: formatKey(key),
      entry: launch.entry,
      when: launch.when === undefined ? undefined : this.#parse(launch.when, [...key, 'when']),
      grid: three(launch.grid, [...sharedKey, 'grid']),
      block: three(launch.block, [...sharedKey, 'block']),
      sharedBytes: this.#shared(launch.shared_bytes, [...sharedKey, 'shared_bytes']),
      cooperative: launch.cooperative,
      programmatic: launch.programmatic,
      cluster: launch.cluster && three(launch.cluster, [...key, 'cluster']),
      l2Persist: {
        tensors: launch.l2_persist.tensors.map((tensor, index) =>
          this.#tensor(tensor, [
            ...sharedKey,
            'l2_persist',
            ...(launch.l2_persist.when === undefined ? [] : ['tensors']),
            index,
          ]),
        ),
        when:
          launch.l2_persist.when === undefined
            ? undefined
            : this.#shared(launch.l2_persist.when, [...sharedKey, 'l2_persist', 'when']),
      },
      arguments: launch.arguments.map((argument, index) =>
        this.#argument(argument, [...sharedKey, 'arguments', index]),
      ),
    };
  }

  /** The expressions behind a launch's own names. They may use all names except each other's. */
  #parsedNames({ with: own, key }: RawLaunch): ReadonlyMap<string, string> {
    const taken = new Set([...this.#values, ...this.#tensors, ...this.#workspaces, ...FUNCTION_NAMES]);
    return new Map(
      Object.entries(own).map(([name, text]) => {
        if (taken.has(name) && this.#faults.length < MAX_FAULTS)
          this.#faults.push({ key: [...key, 'with', name], message: `the name "${name}" is taken: give it another` });
        this.#parse(text, [...key, 'with', name]);
        return [name, `(${text})`];
      }),
    );
  }

  /** Parses an expression that several launches share, with the current launch's own names replaced. */
  #shared(text: string, key: Key): Expression {
    return this.#parse(
      text.replace(NAME, (name) => this.#with.get(name) ?? name),
      key,
    );
  }

  #argument(argument: RawArgument, key: Key): ManifestArgument {
    if (typeof argument !== 'object' || argument === null) return this.#plainArgument(argument, key);
    if ('tensor' in argument) return this.#tensorOfVariants(argument, key);
    if (!('struct' in argument)) return this.#plainArgument(argument, key);
    const { bytes, packed, fields } = argument.struct;
    const compiled = Object.entries(fields).map(([name, { at, value }]) => ({
      name,
      at,
      value: this.#plainArgument(value, [...key, 'struct', 'fields', name, 'value']),
    }));
    this.#checkLayout({ bytes, packed }, compiled, [...key, 'struct', 'fields']);
    return { kind: 'struct', bytes, fields: compiled };
  }

  /**
   * A kernel's signature is decided when the kernel is compiled, so the condition of an argument must not depend on the
   * shape.
   */
  #tensorOfVariants({ tensor, when }: RawTensorOfVariants, key: Key): ManifestArgument {
    const condition = this.#parse(when, [...key, 'when']);
    const other = condition.names.find((name) => !this.#parameters.has(name));
    if (other !== undefined && this.#faults.length < MAX_FAULTS)
      this.#faults.push({
        key: [...key, 'when'],
        message: `must use parameters alone, because it decides about the compiled entry's signature, got ${other}`,
      });
    return { kind: 'tensor', tensor: this.#tensor(tensor, [...key, 'tensor']), when: condition };
  }

  /** Refuses a layout that C++ cannot produce: fields past the end, overlapping, or misaligned. */
  #checkLayout(
    { bytes, packed }: { bytes: number; packed: boolean },
    fields: readonly StructField<PlainManifestArgument>[],
    key: Key,
  ): void {
    const refuse = (name: string, message: string): void => {
      if (this.#faults.length < MAX_FAULTS) this.#faults.push({ key: [...key, name, 'at'], message });
    };
    let before: StructField<PlainManifestArgument> | undefined;
    for (const field of fields.toSorted((a, b) => a.at - b.at)) {
      const { name, at, value } = field;
      const size = argumentBytes(value);
      const alignment = packed ? 1 : Math.min(size, TENSOR_MAP_ALIGNMENT);
      const end = before ? before.at + argumentBytes(before.value) : 0;
      if (at % alignment !== 0)
        refuse(
          name,
          `must be a multiple of ${alignment}, as a ${value.kind} is, unless the struct is packed, got ${at}`,
        );
      else if (at + size > bytes)
        refuse(name, `must be at most ${bytes - size}, where ${bytes} bytes have room for a ${value.kind}, got ${at}`);
      else if (at < end) refuse(name, `must be at least ${end}, where ${before!.name} ends, got ${at}`);
      before = field;
    }
  }

  #plainArgument(argument: RawPlainArgument, key: Key): PlainManifestArgument {
    if (typeof argument === 'string') return this.#namedArgument(argument, key);
    if (argument === null) return { kind: 'null' };
    if (!('tensor_map' in argument)) {
      const [kind, text] = Object.entries(argument)[0] as [NumberKind, string];
      return { kind, value: this.#shared(text, [...key, kind]) };
    }
    const { tensor, box, swizzle } = argument.tensor_map;
    const extents = box.map((text, axis) => this.#shared(text, [...key, 'tensor_map', 'box', axis]));
    const name = this.#tensor(tensor, [...key, 'tensor_map', 'tensor']);
    this.#checkMapped(name, [...key, 'tensor_map', 'tensor']);
    return { kind: 'tensorMap', tensor: name, box: extents, swizzle: swizzle satisfies Swizzle };
  }

  /** cuTensorMapEncodeTiled takes at most five dimensions, of which the innermost one has no stride. */
  #checkMapped(name: TensorName, key: Key): void {
    const order = this.#layouts.find(({ tensor }) => tensor === name)?.order;
    if (!order || this.#faults.length >= MAX_FAULTS) return;
    const message = order.at(-1) !== order.length - 1 ? 'the last dimension last' : 'at most five dimensions';
    if (order.at(-1) !== order.length - 1 || order.length > 5)
      this.#faults.push({ key, message: `must have ${message} in memory for a tensor map: see layouts.${name}` });
  }

  /** Checks that every case has the tensor. */
  #tensor(name: TensorName, key: Key): TensorName {
    const when = this.#when.get(name);
    if (when && this.#faults.length < MAX_FAULTS)
      this.#faults.push({
        key,
        message: `cases have ${name} only where ${when.text}: name it as an argument, which is a null pointer elsewhere`,
      });
    if (!this.#tensors.includes(name) && this.#faults.length < MAX_FAULTS)
      this.#faults.push({
        key,
        message: `unknown tensor "${name}"${didYouMean(name, this.#tensors) || `: known are ${this.#tensors.join(', ')}`}`,
      });
    return name;
  }

  #namedArgument(name: string, key: Key): PlainManifestArgument {
    if (this.#tensors.includes(name)) {
      for (const used of this.#when.get(name)?.names ?? []) this.#uses.add(used);
      return { kind: 'tensor', tensor: name };
    }
    if (this.#workspaces.includes(name)) return { kind: 'workspace', name };
    if (this.#computed.has(name)) return { kind: 'float32', value: this.#parse(name, key) };
    if (this.#values.has(name) || this.#with.has(name)) return { kind: 'int32', value: this.#shared(name, key) };
    const known = [...this.#tensors, ...this.#values, ...this.#with.keys(), ...this.#workspaces];
    if (this.#faults.length < MAX_FAULTS)
      this.#faults.push({
        key,
        message: `unknown argument "${name}"${didYouMean(name, known) || `: known are ${known.join(', ')}`}`,
      });
    return { kind: 'int32', value: parseExpression('0') };
  }
}
