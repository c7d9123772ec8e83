import type { Shape } from '@flashcore/shared/contract';
import {
  formatShape,
  isPlainAttention,
  problemCase,
  valuesOf,
  type Problem,
  type TensorDtype,
} from '@flashcore/shared/kernels';

/** Why PyTorch's SDPA is not measured along with a kernel on this shape; undefined if it is. */
export function whyNotSdpa(problem: Problem, shape: Shape, dtype: TensorDtype): string | undefined {
  const isPlain = isPlainAttention(problemCase(problem, valuesOf(shape), dtype));
  const isNamed = problem.baselines.includes('sdpa');
  if (isPlain && isNamed) return undefined;
  const reason = isPlain ? ', whose problem.yaml does not name it in `baselines`' : '';
  return `SDPA is not called for ${formatShape(shape)} of ${problem.id}${reason}`;
}
