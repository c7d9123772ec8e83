import { expect, test } from 'vitest';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import type { JudgeKernels } from './judge-kernels.ts';
import { ColdSampler, HotSampler, type Sampler } from './samplers.ts';
import type { TimedBuild } from './timed-build.ts';

/** A driver and a build that record the calls, in order. */
function noted(samplerOf: (driver: CudaDriver, build: TimedBuild, judge: JudgeKernels) => Sampler): string[] {
  const calls: string[] = [];
  const noting = <Part extends object>(values: object = {}): Part =>
    new Proxy(values, {
      get: (target, name) =>
        name in target
          ? (target as Record<PropertyKey, unknown>)[name]
          : () => {
              calls.push(String(name));
              return 1;
            },
    }) as Part;
  const driver = noting<CudaDriver>({ facts: { simulated: false, l2Bytes: 1 } });
  const sampler = samplerOf(driver, noting<TimedBuild>({ launches: 1 }), noting<JudgeKernels>());
  calls.length = 0;
  sampler.sample();
  return calls;
}

test.each<[string, Parameters<typeof noted>[0]]>([
  ['cold', (driver, build) => new ColdSampler(driver, build)],
  ['hot', (driver, build, judge) => new HotSampler(driver, { build, judge })],
])('%s samples unpin what another build left in the L2 before inputs are written', (_, samplerOf) => {
  const calls = noted(samplerOf);
  expect(calls.filter((call) => ['resetPersistingL2', 'renew', 'recordEvent', 'check'].includes(call))).toEqual([
    'resetPersistingL2',
    'renew',
    'recordEvent',
    'recordEvent',
    'check',
  ]);
});
