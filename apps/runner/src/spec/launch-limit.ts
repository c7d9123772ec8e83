import type { ProblemCase } from '@flashcore/shared/kernels';

/** Minimum for any launch, however small its shape, so that a busy host does not make a kernel look endless. */
const BASE_MS = 8_000;
/**
 * Far below the slowest kernel of the ladder: the emulator does some 1e9 operations a second on two CPUs, a GPU 1e12.
 */
const SLOWEST_FLOPS_PER_MS = { simulated: 2e4, real: 1e7 };
/** The race hooks make a launch about ten times slower. */
const INSTRUMENTED_FACTOR = 10;

/** How long one run of a case's launches may take before its process is killed, milliseconds. */
export function launchLimitMs(
  { flops }: Pick<ProblemCase, 'flops'>,
  options: { simulated: boolean; instrumented?: boolean },
): number {
  const slowest = options.simulated ? SLOWEST_FLOPS_PER_MS.simulated : SLOWEST_FLOPS_PER_MS.real;
  return BASE_MS + (flops / slowest) * (options.instrumented ? INSTRUMENTED_FACTOR : 1);
}
