import type { CudaDriver } from './driver/cuda-driver.ts';
import { LoadedCandidate } from './driver/loaded-candidate.ts';
import type { LaunchPlan } from '@flashcore/shared/kernels';
import type { Reporter } from './reporter.ts';
import { RunBuffers } from './verify/buffers.ts';

const COUNT = 128;
const LIMIT_MS = 10_000;

const PLAN: LaunchPlan = {
  problem: 'canary',
  operation: 'own',
  operands: { operands: {}, tables: {} },
  dtype: 'fp16',
  values: {},
  flops: 0,
  bytes: 2 * COUNT,
  symmetries: [],
  tensors: [{ name: 'O', direction: 'out', role: 'v', dims: [COUNT], dtype: 'fp16' }],
  launches: [
    {
      entry: 'flashcore_canary',
      grid: [2, 1, 1],
      block: [64, 1, 1],
      sharedBytes: 0,
      l2Persist: [],
      arguments: [{ kind: 'tensor', tensor: 'O' }],
    },
  ],
  accumulate: 'fp32',
  workspace: [],
};

/**
 * Launches a kernel with a known answer (canary.cu). After a fault, a device is used again only if it gives that
 * answer.
 */
export async function runCanary(driver: CudaDriver, image: string, reporter: Reporter): Promise<null> {
  await reporter.step('the canary', LIMIT_MS);
  const loaded = new LoadedCandidate(driver, { image, plan: PLAN, launchLimitMs: LIMIT_MS });
  const buffers = new RunBuffers(driver, PLAN);
  loaded.enqueue(loaded.prepare(buffers.addresses));
  driver.synchronize();
  const output = buffers.outputs()['O']!;
  for (let i = 0; i < COUNT; ++i)
    if (output[i] !== canaryValue(i))
      throw new Error(`the canary kernel wrote ${output[i]} at ${i}, not ${canaryValue(i)}`);
  buffers.free();
  loaded.unload();
  return null;
}

/** The value that canary.cu writes at index i. */
function canaryValue(index: number): number {
  return (index * 40503 + 7) & 0xffff;
}
