import { Random } from '@flashcore/shared/statistics';
import {
  checkShape,
  layoutParameters,
  layoutsOf,
  tensorParameters,
  formatShape,
  resolveVariant,
  type Manifest,
  type ResolvedVariant,
} from '@flashcore/shared/kernels';
import { invalidRequest, type Device, type Shape, type TuneRequest } from '@flashcore/shared/contract';
import { didYouMean, entryOf } from '@flashcore/shared/text';

/** With more combinations, variants are drawn instead of listed. */
const MAX_GRID = 100_000;
/** TuneResult counts combinations in an int32, and an index among them is a double. */
const MAX_COMBINATIONS = 2 ** 31 - 1;

/** The variants of a search, the default first if it is included. */
export interface VariantPlan {
  readonly variants: readonly ResolvedVariant[];
  /** Combinations of the requested values, including those that the manifest refuses. */
  readonly combinations: number;
  /** Whether `variants` were drawn by the seed, as many as the budget has; otherwise they are all variants. */
  readonly drawn: boolean;
  /** Parameters that keep their values because others would change a dtype or a layout. */
  readonly kept: readonly string[];
}

type Axis = readonly [name: string, values: readonly number[]];

/**
 * All combinations of the manifest's parameter values, or of the requested ones; if there are more than `maxTrials`,
 * that many drawn at random. Errors: INVALID_REQUEST for an unknown parameter or value, or too many combinations.
 */
export function planVariants(
  manifest: Manifest,
  { parameters, maxTrials, seed, variant }: Pick<TuneRequest, 'parameters' | 'maxTrials' | 'seed' | 'variant'>,
  { device, shapes }: { device: Device; shapes: readonly Shape[] },
): VariantPlan {
  const axes = axesOf(manifest, parameters);
  const combinations = axes.reduce((product, [, values]) => product * values.length, 1);
  if (combinations > MAX_COMBINATIONS)
    throw invalidRequest({
      field: 'parameters',
      description: `must have at most ${MAX_COMBINATIONS} combinations, have ${combinations.toPrecision(3)}: name the parameters to vary, or fewer values of them`,
    });
  const wanted = maxTrials === 0 ? combinations : Math.min(maxTrials, combinations);
  if (wanted > MAX_GRID)
    throw invalidRequest({
      field: 'max_trials',
      description: `must be set, and at most ${MAX_GRID}: the parameters have ${combinations} combinations`,
    });
  const fixed = variant?.parameters ?? {};
  const resolve = (index: number): ResolvedVariant =>
    resolveVariant(manifest, { ...variant, parameters: { ...fixed, ...valuesAt(axes, index) } }, device);
  const takes = (resolved: ResolvedVariant): boolean =>
    shapes.every((shape) => checkShape(manifest, resolved, shape) === undefined);
  const found: ResolvedVariant[] = [];
  for (const index of indices(combinations, wanted, seed)) {
    const resolved = resolve(index);
    if (found[0] && found[0].dtype !== resolved.dtype)
      throw invalidRequest({
        field: 'parameters',
        description: `must leave the dtype of the tensors as it is, got ${found[0].dtype} and ${resolved.dtype}: search each by itself`,
      });
    if (
      layoutsOf(manifest, resolved.parameters).length !== layoutsOf(manifest, (found[0] ?? resolved).parameters).length
    )
      throw invalidRequest({
        field: 'parameters',
        description: `must leave the layouts of the tensors as they are, got two: search each by itself, without ${layoutParameters(manifest).join(', ')}`,
      });
    if (takes(resolved)) found.push(resolved);
    if (found.length === wanted) break;
  }
  if (found.length === 0)
    throw invalidRequest({
      field: 'parameters',
      description: `none of ${combinations} combinations takes ${shapes.map(formatShape).join(', ')}: the limits of ${manifest.id} refuse them`,
    });
  return {
    variants: found,
    combinations,
    drawn: wanted < combinations,
    kept: parameters.length === 0 ? tensorParameters(manifest) : [],
  };
}

function axesOf(manifest: Manifest, asked: TuneRequest['parameters']): Axis[] {
  const named = new Map<string, number[]>();
  // The values of a parameter that is named twice are combined.
  for (const { name, values } of asked) named.set(name, [...(named.get(name) ?? []), ...values.map(Number)]);
  const known = Object.keys(manifest.parameters);
  for (const [name, values] of named) {
    const parameter = entryOf(manifest.parameters, name);
    if (!parameter)
      throw invalidRequest({
        field: 'parameters',
        description: `${name}: the kernel has no such parameter${didYouMean(name, known)}`,
      });
    const wrong = values.find((value) => !parameter.values.includes(value));
    if (values.length === 0 || wrong !== undefined)
      throw invalidRequest({
        field: 'parameters',
        description: `${name}=${wrong ?? ''}: must be of ${parameter.values.join(', ')}`,
      });
  }
  // Without names, all vary except those that decide dtype or layout, because times of different tensors are not
  // comparable.
  const fixed = new Set(named.size === 0 ? tensorParameters(manifest) : known);
  return known.flatMap((name): Axis[] => {
    const values = named.get(name) ?? (fixed.has(name) ? undefined : entryOf(manifest.parameters, name)?.values);
    return values ? [[name, [...new Set(values)]]] : [];
  });
}

/** The combination at an index; the last axis varies fastest. */
function valuesAt(axes: readonly Axis[], index: number): Record<string, bigint> {
  const values = new Map<string, bigint>();
  let rest = index;
  for (const [name, choices] of axes.toReversed()) {
    values.set(name, BigInt(choices[rest % choices.length]!));
    rest = Math.floor(rest / choices.length);
  }
  return Object.fromEntries(values);
}

/**
 * All indices in order; or indices drawn by the seed, without repeats: the first `wanted`, then replacements for
 * refused ones.
 */
function* indices(combinations: number, wanted: number, seed: number): Generator<number> {
  if (wanted === combinations) {
    for (let index = 0; index < combinations; ++index) yield index;
    return;
  }
  const random = new Random(seed);
  const taken = new Set<number>();
  // Refused indices are drawn too, so the number of draws is limited in case a manifest refuses nearly all.
  for (let draws = 0; draws < 50 * wanted && taken.size < combinations; ++draws) {
    const index = Math.floor(random.uniform() * combinations);
    if (taken.has(index)) continue;
    taken.add(index);
    yield index;
  }
}

/** Text such as "; BF16 keeps its value, …"; empty if every parameter is varied. */
export const keptText = (kept: readonly string[]): string =>
  kept.length === 0
    ? ''
    : `; ${kept.join(', ')} ${kept.length === 1 ? 'keeps its value' : 'keep their values'}, because times of other dtypes or layouts do not compare`;
