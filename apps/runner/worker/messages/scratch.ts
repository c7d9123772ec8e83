import { TRITON_SCRATCH_ARGUMENTS, type LaunchPlan } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { DeviceImage } from './launchable.ts';

/** No manifest can have a workspace of this name, because it is not an identifier. */
const SCRATCH = "Triton's scratch memory";

/**
 * The plan with the scratch memory that the compiled code asks for: a workspace, passed as the first of the two
 * pointers that Triton adds to the arguments.
 */
export function withScratch(plan: LaunchPlan, image: DeviceImage): LaunchPlan {
  if (typeof image === 'string') return plan;
  const needed = plan.launches.map(({ entry, grid }) => {
    const found = entryOf(image, entry);
    const bytes = typeof found === 'object' ? (found.scratchBytes ?? 0) : 0;
    return bytes * grid.reduce((product, extent) => product * extent, 1);
  });
  const most = Math.max(...needed);
  if (most === 0) return plan;
  const launches = plan.launches.map((launch, index) => {
    const at = launch.arguments.length - TRITON_SCRATCH_ARGUMENTS;
    const scratch = { kind: 'workspace', name: SCRATCH } as const;
    return needed[index] === 0 ? launch : { ...launch, arguments: launch.arguments.with(at, scratch) };
  });
  return { ...plan, launches, workspace: [...plan.workspace, { name: SCRATCH, bytes: most }] };
}
