import { create } from '@bufbuild/protobuf';
import {
  Phase,
  ProfileProgressSchema,
  type BuildResult,
  type LaunchWaves,
  type ProfileResult,
  type Shape,
} from '@flashcore/shared/contract';
import { accumulateOf, formatShape, planLaunches } from '@flashcore/shared/kernels';
import { profileFindings } from '../findings/profile-findings.ts';
import type { ProfileSpec } from '../spec/job-spec.ts';
import { countedProfile } from './counted-profile.ts';
import { emitFindings, startPhase, type VariantServices } from './job-services.ts';
import type { VariantPhase } from './phase.ts';

/** Reads the hardware counters of one shape. What they show to be wrong stops nothing: gates decide about it. */
export const profilePhase: VariantPhase = {
  phase: Phase.PROFILE,
  wants: ({ spec }, { build }) => spec.profile !== undefined && build?.image !== undefined,
  async run(services, { result, build }) {
    const { profile } = services.spec;
    result.profile = await runProfile(services, {
      spec: profile!,
      image: build!.image!,
      build: build!.result,
      waves: wavesFor(build!.result, profile!.shape),
    });
    const findings = profileFindings(result.profile);
    emitFindings(services, findings);
    result.findings.push(...findings);
    return undefined;
  },
};

/** Of the entry with the most CTAs. */
function wavesFor({ entries }: BuildResult, shape: Shape): LaunchWaves | undefined {
  const own = entries.flatMap(({ waves }) => waves.filter((each) => each.shape === formatShape(shape)));
  return own.toSorted((a, b) => Number(b.ctas - a.ctas))[0];
}

interface ProfileOptions {
  spec: ProfileSpec;
  image: string;
  build: BuildResult;
  waves: LaunchWaves | undefined;
}

async function runProfile(services: VariantServices, options: ProfileOptions): Promise<ProfileResult> {
  const { job, spec, tools } = services;
  startPhase(services, Phase.PROFILE, 0);
  const counts = spec.device.simulated && tools.engine() === 'ptx';
  const result = counts ? await countedProfile(services, options) : await readCounters(services, options);
  job.emit({ case: 'profileResult', value: result });
  return result;
}

function readCounters(services: VariantServices, { spec, image, waves }: ProfileOptions): Promise<ProfileResult> {
  const { job, runtime, resolved } = services;
  const { device, kernel } = services.spec;
  const { shape, metricSet, counters } = spec;
  const plan = planLaunches(kernel.manifest, resolved, shape);
  const accumulate = accumulateOf(kernel.manifest, resolved.parameters);
  return runtime.instruments.profiler().profile(
    { device, image, shape, plan, metricSet, counters, accumulate, waves },
    {
      signal: job.signal,
      onProgress: (progress) => job.emit({ case: 'profileProgress', value: create(ProfileProgressSchema, progress) }),
    },
  );
}
