/** Evaluates a manifest's expressions. The error for an expression without a value names its key. */
import { FlashcoreError } from '../contract/errors.ts';
import type { TensorDtype } from '../data/dtype.ts';
import { evaluate, type Expression, ExpressionError } from '../data/expression.ts';
import type { Manifest, ManifestLaunch } from './manifest-model.ts';

/** An expression's value over `scope`. Errors: INVALID_MANIFEST with its key if the value is not finite. */
export function valueOf(
  manifest: Pick<Manifest, 'path'>,
  expression: Expression,
  scope: Readonly<Record<string, number>>,
  key: string,
): number {
  try {
    return evaluate(expression, scope);
  } catch (error) {
    if (error instanceof ExpressionError) throw wrongValue(manifest, key, error.message);
    throw error;
  }
}

/** INVALID_MANIFEST: the expression at `key` has an unusable value. */
export const wrongValue = (manifest: Pick<Manifest, 'path'>, key: string, description: string) =>
  new FlashcoreError('INVALID_MANIFEST', { path: manifest.path, key }, `${manifest.path}: ${key}: ${description}`, {
    violations: [{ field: key, description }],
  });

type Parameters = Readonly<Record<string, number>>;

/** Dtype of Q, K, V and O with these parameters. Errors: INVALID_MANIFEST if an expression has no value. */
export function inputsOf(manifest: Pick<Manifest, 'math' | 'path'>, parameters: Parameters): TensorDtype {
  const { inputs } = manifest.math;
  if (typeof inputs === 'string') return inputs;
  const chosen = inputs.find(({ dtype, when }) => valueOf(manifest, when, parameters, `math.inputs.${dtype}_when`));
  return chosen?.dtype ?? 'fp16';
}

/** The manifest with the arguments and layouts that a variant has. Errors: those of inputsOf(). */
export const manifestOfVariant = (manifest: Manifest, parameters: Parameters): Manifest => ({
  ...manifest,
  layouts: layoutsOf(manifest, parameters),
  launches: manifest.launches.map((launch) => launchOfVariant(manifest, launch, parameters)),
});

/** A launch with the arguments that a variant has. Errors: those of inputsOf(). */
export const launchOfVariant = (
  manifest: Pick<Manifest, 'path'>,
  launch: ManifestLaunch,
  parameters: Parameters,
): ManifestLaunch => ({
  ...launch,
  arguments: launch.arguments.flatMap((argument, index) => {
    if (!('when' in argument)) return [argument];
    const holds = valueOf(manifest, argument.when, parameters, `${launch.key}.arguments[${index}].when`) !== 0;
    return holds ? [{ kind: 'tensor', tensor: argument.tensor }] : [];
  }),
});

/** The layouts of a variant that differ from the problem's. Errors: those of inputsOf(). */
export const layoutsOf = (manifest: Pick<Manifest, 'layouts' | 'path'>, parameters: Parameters): Manifest['layouts'] =>
  manifest.layouts.flatMap(({ tensor, order, when }) => {
    const holds = when === undefined || valueOf(manifest, when, parameters, `layouts.${tensor}.when`) !== 0;
    return holds && order.some((dim, place) => dim !== place) ? [{ tensor, order, when: undefined }] : [];
  });

/** Parameters that decide the kernel's dtype. With `but`, parameters that select this dtype are left out. */
export function dtypeParameters({ math: { inputs } }: Pick<Manifest, 'math'>, but?: TensorDtype): string[] {
  if (typeof inputs === 'string') return [];
  const kept = inputs.filter(({ dtype }) => dtype === but).flatMap(({ when }) => when.names);
  return inputs.flatMap(({ when }) => when.names).filter((name) => !kept.includes(name));
}

/** Parameters that decide how tensors are laid out in memory. */
export const layoutParameters = ({ layouts }: Pick<Manifest, 'layouts'>): string[] =>
  layouts.flatMap(({ when }) => when?.names ?? []);

/** Parameters that decide the dtype or the layout of a tensor. */
export const tensorParameters = (manifest: Pick<Manifest, 'math' | 'layouts'>): string[] => [
  ...new Set([...dtypeParameters(manifest), ...layoutParameters(manifest)]),
];

/** The dtype in which the tensor cores accumulate with these parameters. Errors: those of inputsOf(). */
export function accumulateOf(manifest: Pick<Manifest, 'math' | 'path'>, parameters: Parameters): 'fp16' | 'fp32' {
  const { accumulate } = manifest.math;
  if (typeof accumulate === 'string') return accumulate;
  return valueOf(manifest, accumulate.fp32When, parameters, 'math.accumulate.fp32_when') ? 'fp32' : 'fp16';
}
