import type { CudaDriver } from './driver/cuda-driver.ts';
import type { Reference } from './driver/reference.ts';
import type { CountReport, CountRequest, Filling } from './messages/profiling.ts';
import type { Reporter } from './reporter.ts';
import { blocksToTrace, kernelCycles } from './timing/multiprocessor.ts';
import { HOPPER } from './timing/machine.ts';
import { NoTimeFor } from './timing/operations.ts';
import { readTrace } from './timing/trace.ts';
import { drawInputs } from './verify/inputs.ts';
import { CandidateRun, POISONS } from './verify/verify-case.ts';

const WALK_LIMIT_MS = 120_000;
/** Maximum number of steps to walk, which takes a few seconds. */
const MOST_STEPS = 4_000_000;
/** Room for these steps at 4 bytes each, and for the statements. */
const MOST_TRACE_BYTES = 32 * 1024 ** 2;

/**
 * Runs all launches once on the emulator and counts every instruction and memory access. If the request describes how a
 * GPU is filled, runs a few CTAs once more and walks their trace.
 */
export async function countLaunches(
  driver: CudaDriver,
  { candidate, input, filling }: CountRequest,
  { reporter, reference }: { reporter: Reporter; reference: Reference },
): Promise<CountReport> {
  const run = await CandidateRun.open(driver, candidate, reporter);
  const runOnce = () => run.once(drawInputs(candidate.plan, input, reference), POISONS[0], input.seed);
  driver.countLaunches();
  await runOnce();
  const launches = driver.countedLaunches();
  if (filling === undefined) {
    run.close();
    return { launches };
  }
  driver.traceLaunches(blocksToTrace(filling.ctas, candidate.plan.values['causal'] === 1));
  await runOnce();
  const trace = driver.tracedLaunches(MOST_TRACE_BYTES);
  run.close();
  await reporter.step('walking the trace', WALK_LIMIT_MS);
  return { launches, ...walk(trace, filling) };
}

function walk(bytes: Buffer | undefined, filling: Filling): Pick<CountReport, 'cycles' | 'noCycles'> {
  const trace = bytes && readTrace(bytes);
  const steps = trace?.blocks.flat().reduce((sum, { statements }) => sum + statements.length, 0) ?? Infinity;
  if (!trace || trace.blocks.length === 0 || steps > MOST_STEPS)
    return { noCycles: `one CTA has more than ${MOST_STEPS / 1e6} million steps: profile a smaller shape` };
  try {
    return { cycles: kernelCycles(trace, HOPPER, filling) };
  } catch (error) {
    if (error instanceof NoTimeFor) return { noCycles: `the model has no time for ${error.message}` };
    throw error;
  }
}
