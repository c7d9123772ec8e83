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
import type { KernelBuild } from '../build/kernel-builder.ts';
import type { ProfileSpec } from '../spec/job-spec.ts';
import { countedProfile } from './counted-profile.ts';
import type { Profiling, VariantFound } from './job-found.ts';
import { emitFindings, startPhase, type VariantServices } from './job-services.ts';
import type { VariantPhase } from './phase.ts';

/**
 * Starts the profiler while a kernel is verified: ncu and a process with a context of its own take a second to be
 * ready. Nothing is launched, and no counter read, before profileVerifiedPhase. On the emulator there is no ncu.
 */
export function profileBeside(services: VariantServices, { build, result }: VariantFound): Profiling | undefined {
  const { profile, device, verify } = services.spec;
  if (!profile || !build?.image || device.simulated || verify?.sanitize || result.profile) return undefined;
  const [going, dropped] = [Promise.withResolvers<void>(), new AbortController()];
  const signal = AbortSignal.any([services.job.signal, dropped.signal]);
  const reading = readCounters(services, { ...optionsOf(profile, build), go: going.promise, signal });
  const over = reading.then(
    () => undefined,
    // Told to whoever let it go; nobody wants to know why one ended that was dropped.
    () => undefined,
  );
  return {
    go: () => {
      going.resolve();
      return reading;
    },
    drop: () => {
      dropped.abort(new Error('the profile is not wanted any more'));
      return over;
    },
  };
}

/** Reads the counters of a kernel that was found right, where its profiler waits already: before it is timed. */
export const profileVerifiedPhase: VariantPhase = {
  phase: Phase.PROFILE,
  wants: (_, { profiling }) => profiling !== undefined,
  async run(services, found) {
    startPhase(services, Phase.PROFILE, 0);
    keep(services, found, await found.profiling!.go());
    return undefined;
  },
};

/** Reads the hardware counters of one shape. What they show to be wrong stops nothing: gates decide about it. */
export const profilePhase: VariantPhase = {
  phase: Phase.PROFILE,
  wants: ({ spec }, { build, result }) =>
    spec.profile !== undefined && build?.image !== undefined && result.profile === undefined,
  async run(services, found) {
    const { spec, tools } = services;
    startPhase(services, Phase.PROFILE, 0);
    const options = optionsOf(spec.profile!, found.build!);
    const counts = spec.device.simulated && tools.engine() === 'ptx';
    keep(services, found, await (counts ? countedProfile(services, options) : readCounters(services, options)));
    return undefined;
  },
};

function keep(services: VariantServices, { result }: VariantFound, profile: ProfileResult): void {
  result.profile = profile;
  services.job.emit({ case: 'profileResult', value: profile });
  const findings = profileFindings(profile);
  emitFindings(services, findings);
  result.findings.push(...findings);
}

const optionsOf = (spec: ProfileSpec, { image, result }: KernelBuild): ProfileOptions => ({
  spec,
  image: image!,
  build: result,
  waves: wavesFor(result, spec.shape),
});

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
  /** As in the profiler's options. */
  go?: Promise<void>;
  /** Default: the job's. */
  signal?: AbortSignal;
}

function readCounters(
  services: VariantServices,
  { spec, image, waves, go, signal }: ProfileOptions,
): Promise<ProfileResult> {
  const { job, runtime, resolved } = services;
  const { device, kernel } = services.spec;
  const { shape, metricSet, counters } = spec;
  const plan = planLaunches(kernel.manifest, resolved, shape);
  const accumulate = accumulateOf(kernel.manifest, resolved.parameters);
  // One that waits says nothing: another phase runs.
  let tells = go === undefined;
  void go?.then(() => (tells = true));
  return runtime.instruments.profiler().profile(
    { device, image, shape, plan, metricSet, counters, accumulate, waves },
    {
      signal: signal ?? job.signal,
      onProgress: (progress) => {
        if (tells) job.emit({ case: 'profileProgress', value: create(ProfileProgressSchema, progress) });
      },
      ...(go && { go }),
    },
  );
}
