/** Parses the expressions of a manifest and refuses names that nothing defines. */
import { DTYPE_BYTES, fillOf } from './dtype.ts';
import { type Expression, ExpressionError, parseExpression } from './expression.ts';
import type { Manifest, ManifestArgument, ManifestLaunch, Swizzle, TensorName } from './manifest-model.ts';
import type { RawManifest } from './manifest-schema.ts';
import { didYouMean } from '../text/nearest-names.ts';
import { SHAPE_NAMES } from './shape.ts';
import { MAX_FAULTS, type YamlFault } from './yaml-file.ts';

type Key = (string | number)[];
type Compiled = Pick<Manifest, 'math' | 'limits' | 'workspace' | 'constants' | 'launches'>;
type RawLaunch = RawManifest['launches'][number];
type RawArgument = RawLaunch['arguments'][number];

/**
 * All expressions parsed; `faults` lists each that is wrong, by its key. `compiled` is only of use when there are none.
 */
export function compileExpressions(raw: RawManifest): { compiled: Compiled; faults: YamlFault[] } {
  const faults: YamlFault[] = [];
  const names = new Set<string>([...SHAPE_NAMES, ...Object.keys(raw.parameters)]);
  const parse = (text: string, key: Key, known: ReadonlySet<string> = names): Expression => {
    if (faults.length >= MAX_FAULTS) return parseExpression('0');
    try {
      const expression = parseExpression(text);
      for (const name of expression.names) {
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
  // The parameters alone decide: what a kernel adds up in does not depend on the shape.
  const parameters = new Set(Object.keys(raw.parameters));
  const math: Manifest['math'] = {
    inputs,
    accumulate:
      typeof accumulate === 'string'
        ? accumulate
        : { fp32When: parse(accumulate.fp32_when, ['math', 'accumulate', 'fp32_when'], parameters) },
  };

  // In order: a constant may use those before it.
  const ofShape = new Set<string>(SHAPE_NAMES);
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
  const workspace = Object.entries(raw.workspace).map(([name, written]) => {
    if (typeof written === 'string') return { name, bytes: parse(written, ['workspace', name]), initial: undefined };
    const { dtype, shape, initial } = written;
    // Each extent for itself first: a fault names the one that is wrong.
    const before = faults.length;
    for (const [axis, extent] of shape.entries()) parse(extent, ['workspace', name, 'shape', axis]);
    const elements = faults.length > before ? '0' : shape.map((extent) => `(${extent})`).join(' * ');
    return {
      name,
      bytes: parse(`${elements} * ${DTYPE_BYTES[dtype]}`, ['workspace', name, 'shape']),
      initial: initial === undefined ? undefined : fillOf(initial, dtype),
    };
  });
  const compiler = new LaunchCompiler(parse, new Set(Object.keys(raw.workspace)), names, faults);
  const launches = raw.launches.map((launch, index) => compiler.compile(launch, ['launches', index]));
  return { compiled: { math, constants, limits, workspace, launches }, faults };
}

class LaunchCompiler {
  readonly #parse: (text: string, key: Key) => Expression;
  readonly #workspaces: ReadonlySet<string>;
  readonly #values: ReadonlySet<string>;
  readonly #faults: YamlFault[];

  constructor(
    parse: (text: string, key: Key) => Expression,
    workspaces: ReadonlySet<string>,
    values: ReadonlySet<string>,
    faults: YamlFault[],
  ) {
    this.#parse = parse;
    this.#workspaces = workspaces;
    this.#values = values;
    this.#faults = faults;
  }

  compile(launch: RawLaunch, key: Key): ManifestLaunch {
    const three = (texts: [string, string, string], name: string) =>
      texts.map((text, axis) => this.#parse(text, [...key, name, axis])) as unknown as [
        Expression,
        Expression,
        Expression,
      ];
    return {
      entry: launch.entry,
      when: this.#optional(launch.when, [...key, 'when']),
      grid: three(launch.grid, 'grid'),
      block: three(launch.block, 'block'),
      sharedBytes: this.#parse(launch.shared_bytes, [...key, 'shared_bytes']),
      cluster: launch.cluster && three(launch.cluster, 'cluster'),
      l2Persist: {
        tensors: launch.l2_persist.tensors,
        when: this.#optional(launch.l2_persist.when, [...key, 'l2_persist', 'when']),
      },
      arguments: launch.arguments.map((argument, index) => this.#argument(argument, [...key, 'arguments', index])),
    };
  }

  #optional(text: string | undefined, key: Key): Expression | undefined {
    return text === undefined ? undefined : this.#parse(text, key);
  }

  #argument(argument: RawArgument, key: Key): ManifestArgument {
    if (typeof argument === 'string') return this.#namedArgument(argument, key);
    if ('int32' in argument) return { kind: 'int32', value: this.#parse(argument.int32, [...key, 'int32']) };
    if ('float32' in argument) return { kind: 'float32', value: this.#parse(argument.float32, [...key, 'float32']) };
    const { tensor, box, swizzle } = argument.tensor_map;
    const extents = box.map((text, axis) => this.#parse(text, [...key, 'tensor_map', 'box', axis]));
    return { kind: 'tensorMap', tensor: tensor satisfies TensorName, box: extents, swizzle: swizzle satisfies Swizzle };
  }

  #namedArgument(name: string, key: Key): ManifestArgument {
    if (name === 'Q' || name === 'K' || name === 'V' || name === 'O') return { kind: 'tensor', tensor: name };
    if (this.#workspaces.has(name)) return { kind: 'workspace', name };
    if (name === 'scale') return { kind: 'float32', value: parseExpression(name) };
    if (this.#values.has(name)) return { kind: 'int32', value: parseExpression(name) };
    const known = ['Q', 'K', 'V', 'O', ...this.#values, ...this.#workspaces];
    if (this.#faults.length < MAX_FAULTS)
      this.#faults.push({
        key,
        message: `unknown argument "${name}"${didYouMean(name, known) || `: known are ${known.join(', ')}`}`,
      });
    return { kind: 'int32', value: parseExpression('0') };
  }
}
