import type { CudaDriver } from './driver/cuda-driver.ts';
import type { CountRequest, LaunchCounts } from './messages.ts';
import type { Reporter } from './reporter.ts';
import { tensorKindOf } from './driver/tensor-bits.ts';
import { drawInputs } from './verify/inputs.ts';
import { CandidateRun, POISONS } from './verify/verify-case.ts';

/** One run of all launches on the emulator, each instruction and memory access counted. */
export async function countLaunches(
  driver: CudaDriver,
  { candidate, input }: CountRequest,
  reporter: Reporter,
): Promise<LaunchCounts[]> {
  const run = await CandidateRun.open(driver, candidate, reporter);
  driver.countLaunches();
  await run.once(drawInputs(tensorKindOf(candidate), input), POISONS[0], input.seed);
  const counted = driver.countedLaunches();
  run.close();
  return counted;
}
