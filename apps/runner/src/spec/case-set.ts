import { invalidRequest, type Shape } from '@flashcore/shared/contract';
import type { Cases } from '@flashcore/shared/kernels';
import { didYouMean, entryOf } from '@flashcore/shared/text';

/** The shapes of a set of cases.yaml. Errors: INVALID_REQUEST naming the available sets. */
export function caseSet(name: string, { sets }: Cases, field: string): readonly Shape[] {
  const shapes = entryOf(sets, name);
  if (shapes) return shapes;
  const known = Object.keys(sets);
  throw invalidRequest({
    field,
    description: `must be one of ${known.join(', ')}, is "${name}"${didYouMean(name, known)}`,
  });
}
