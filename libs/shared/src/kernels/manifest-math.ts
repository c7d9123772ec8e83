/** Number formats that depend on a variant's parameters. */
import type { TensorDtype } from '../data/dtype.ts';
import type { Manifest } from './manifest-model.ts';
import { valueOf } from './manifest-value.ts';

type Parameters = Readonly<Record<string, number>>;

/** Dtype of Q, K, V and O with these parameters. Errors: INVALID_MANIFEST if an expression has no value. */
export function inputsOf(manifest: Pick<Manifest, 'math' | 'path'>, parameters: Parameters): TensorDtype {
  const { inputs } = manifest.math;
  if (typeof inputs === 'string') return inputs;
  const chosen = inputs.find(({ dtype, when }) => valueOf(manifest, when, parameters, `math.inputs.${dtype}_when`));
  return chosen?.dtype ?? 'fp16';
}

/** Parameters that decide the dtype of Q, K, V and O. */
export const dtypeParameters = ({ math: { inputs } }: Pick<Manifest, 'math'>): string[] =>
  typeof inputs === 'string' ? [] : inputs.flatMap(({ when }) => when.names);

/** The dtype in which the tensor cores accumulate with these parameters. Errors: those of inputsOf(). */
export function accumulateOf(manifest: Pick<Manifest, 'math' | 'path'>, parameters: Parameters): 'fp16' | 'fp32' {
  const { accumulate } = manifest.math;
  if (typeof accumulate === 'string') return accumulate;
  return valueOf(manifest, accumulate.fp32When, parameters, 'math.accumulate.fp32_when') ? 'fp32' : 'fp16';
}
