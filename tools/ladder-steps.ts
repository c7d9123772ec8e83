/** The ladder: the kernels of kernels/, each placed after the step that it follows. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { loadManifest, type Manifest } from '@flashcore/shared/kernels';

const KERNELS = join(import.meta.dirname, '../kernels');
// The names of steps. Kernels of kernels/faulty are not steps, and primitives, mechanisms and reference are not
// kernels.
const STEP = /^(fa|flashcore)_/;

/**
 * The manifests of the ladder, from the first step (which has no `after`) down every branch. If several steps follow
 * one step, the side branch comes before the trunk (`flashcore_…`).
 */
export async function ladderSteps(): Promise<Manifest[]> {
  const manifests = await Promise.all(
    readdirSync(KERNELS)
      .filter((name) => STEP.test(name))
      .sort()
      .map((name) => loadManifest(join(KERNELS, name))),
  );
  const following = (after: string | undefined): Manifest[] =>
    manifests.filter((each) => each.after === after).flatMap((each) => [each, ...following(each.id)]);
  const ordered = following(undefined);
  const lost = manifests.filter((each) => !ordered.includes(each));
  if (lost.length > 0)
    throw new Error(
      `Every kernel's "after" must lead back to the first step, got ${lost.map(({ id, after }) => `${id} after ${after}`).join(', ')}`,
    );
  return ordered;
}
