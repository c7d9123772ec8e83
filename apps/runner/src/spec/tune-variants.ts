import { Random } from '@flashcore/shared/statistics';
import {
  checkShape,
  formatShape,
  resolveVariant,
  type Manifest,
  type ResolvedVariant,
} from '@flashcore/shared/kernels';
import { invalidRequest, type Device, type Shape, type TuneRequest } from '@flashcore/shared/contract';
import { didYouMean } from '@flashcore/shared/text';

/** More combinations are drawn from, never listed. */
const MAX_GRID = 100_000;

/** The variants that a search looks at, the default first where it is among them. */
export interface VariantPlan {
  readonly variants: readonly ResolvedVariant[];
  /** Combinations of the values asked for, those that the manifest refuses included. */
  readonly combinations: number;
  /** What `variants` are: all of them, or as many as the budget has, drawn by the seed. */
  readonly drawn: boolean;
}

type Axis = readonly [name: string, values: readonly number[]];

/**
 * All combinations of the manifest's parameter values, or of those asked for; as many as `maxTrials` drawn at random
 * where there are more. Errors: INVALID_REQUEST for an unknown parameter or value, or too many combinations.
 */
export function planVariants(
  manifest: Manifest,
  { parameters, maxTrials, seed, variant }: Pick<TuneRequest, 'parameters' | 'maxTrials' | 'seed' | 'variant'>,
  { device, shapes }: { device: Device; shapes: readonly Shape[] },
): VariantPlan {
  const axes = axesOf(manifest, parameters);
  const combinations = axes.reduce((product, [, values]) => product * values.length, 1);
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
    if (takes(resolved)) found.push(resolved);
    if (found.length === wanted) break;
  }
  if (found.length === 0)
    throw invalidRequest({
      field: 'parameters',
      description: `none of ${combinations} combinations takes ${shapes.map(formatShape).join(', ')}: the limits of ${manifest.id} refuse them`,
    });
  return { variants: found, combinations, drawn: wanted < combinations };
}

function axesOf(manifest: Manifest, asked: TuneRequest['parameters']): Axis[] {
  const named = new Map(asked.map(({ name, values }) => [name, values.map(Number)]));
  const known = Object.keys(manifest.parameters);
  for (const [name, values] of named) {
    const parameter = manifest.parameters[name];
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
  // Named ones alone are varied; without any, all are.
  return known.flatMap((name): Axis[] => {
    const values = named.get(name) ?? (named.size === 0 ? manifest.parameters[name]!.values : undefined);
    return values ? [[name, [...new Set(values)]]] : [];
  });
}

/** The combination of a number: the last axis runs fastest. */
function valuesAt(axes: readonly Axis[], index: number): Record<string, bigint> {
  const values: Record<string, bigint> = {};
  let rest = index;
  for (const [name, choices] of axes.toReversed()) {
    values[name] = BigInt(choices[rest % choices.length]!);
    rest = Math.floor(rest / choices.length);
  }
  return values;
}

/** All in order, or as many as wanted first drawn by the seed, without repeats; the rest stand in for refused ones. */
function* indices(combinations: number, wanted: number, seed: number): Generator<number> {
  if (wanted === combinations) {
    for (let index = 0; index < combinations; ++index) yield index;
    return;
  }
  const random = new Random(seed);
  const taken = new Set<number>();
  // Refused ones are drawn too: a bound keeps a manifest that refuses nearly all from being drawn from for ever.
  for (let draws = 0; draws < 50 * wanted && taken.size < combinations; ++draws) {
    const index = Math.floor(random.uniform() * combinations);
    if (taken.has(index)) continue;
    taken.add(index);
    yield index;
  }
}
