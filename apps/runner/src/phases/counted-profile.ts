/** The profile of a device without counters: the emulator's PTX engine counts what the kernel does. */
import type { BuildResult, LaunchWaves, ProfileResult } from '@flashcore/shared/contract';
import { accumulateOf } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { DeviceImage } from '../../worker/messages/launchable.ts';
import { modelledResult } from '../profile/modelled-result.ts';
import { notMeasured } from '../profile/profiler.ts';
import { fillingOf, timeEstimate } from '../profile/time-estimate.ts';
import type { ProfileSpec } from '../spec/job-spec.ts';
import { describeOutcome } from '../workers/device-worker.ts';
import { candidateFor } from './candidate.ts';
import type { VariantServices } from './job-services.ts';

interface CountOptions {
  spec: ProfileSpec;
  image: DeviceImage;
  build: BuildResult;
  waves: LaunchWaves | undefined;
}

const SEED = '666c617368';

export async function countedProfile(services: VariantServices, options: CountOptions): Promise<ProfileResult> {
  const { job, spec, runtime, frames, resolved, cases } = services;
  const { shape, counters } = options.spec;
  const candidate = candidateFor(services, { image: options.image, shape, instrumented: true });
  const filling = fillingOf(candidate.plan.launches, options.build.entries);
  const outcome = await runtime.request(
    {
      type: 'count',
      candidate,
      input: { seed: SEED, rule: entryOf(cases.distributions, cases.defaults.distribution)!, evenLengths: true },
      ...(typeof filling === 'string' ? {} : { filling }),
    },
    { signal: job.signal },
  );
  if (outcome.status !== 'done')
    return notMeasured({ shape, plan: candidate.plan }, `the counted run failed: ${describeOutcome(outcome)}`);
  const result = modelledResult({
    arch: spec.device.arch,
    deviceName: spec.device.name,
    shape,
    computed: candidate.plan,
    accumulate: accumulateOf(spec.kernel.manifest, resolved.parameters),
    launches: outcome.value.launches,
    frontEnd: options.build.runs.some(({ compiler }) => compiler === 'clang++') ? 'clang' : 'nvcc',
    entries: options.build.entries,
    waves: options.waves,
    counters,
    textOf: (file, line) => frames.lineAt(file, line),
  });
  result.estimate = timeEstimate(filling, outcome.value);
  return result;
}
