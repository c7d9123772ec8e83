import { invalidRequest, type Shape } from '@flashcore/shared/contract';
import type { Cases } from '@flashcore/shared/kernels';
import { didYouMean } from '@flashcore/shared/text';

/** The shapes of a set of cases.yaml. Errors: INVALID_REQUEST naming the sets. */
export function caseSet(name: string, { sets }: Cases, field: string): readonly Shape[] {
  if (Object.hasOwn(sets, name)) return sets[name]!;
  const known = Object.keys(sets);
  throw invalidRequest({
    field,
    description: `must be one of ${known.join(', ')}, is "${name}"${didYouMean(name, known)}`,
  });
}
