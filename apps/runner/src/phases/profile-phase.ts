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
import type { KernelBuild } from '../build/compiled-kernel.ts';
import type { ProfiledBuild } from '../profile/profiler.ts';
import type { ProfileSpec } from '../spec/job-spec.ts';
import { countedProfile } from './counted-profile.ts';
import type { Profiling, VariantFound } from './job-found.ts';
import { emitFindings, startPhase, type VariantServices } from './job-services.ts';
import type { VariantPhase } from './phase.ts';

/**
 * Starts the profiler while a kernel is built and verified, because ncu and a process with its own context take a
 * second to be ready. No kernel is launched and no counter read before profileVerifiedPhase. There is no ncu on the
 * emulator.
 */
export function profileBeside(services: VariantServices): Profiling | undefined {
  const { profile, device, verify } = services.spec;
  if (!profile || !verify || device.simulated || verify.sanitize) return undefined;
  const [built, dropped] = [Promise.withResolvers<ProfiledBuild>(), new AbortController()];
  const signal = AbortSignal.any([services.job.signal, dropped.signal]);
  const launched = Promise.withResolvers<void>();
  const result = readCounters(services, {
    spec: profile,
    built: built.promise,
    signal,
    onLaunched: launched.resolve,
  });
  const over = result.then(
    () => undefined,
    // Errors of an abandoned profile are dropped; others go to the caller.
    () => undefined,
  );
  return {
    go: (build) => {
      built.resolve(profiledBuild(build, profile));
      return Promise.race([launched.promise, result.then(() => undefined)]);
    },
    result,
    drop: () => {
      dropped.abort(new Error('the profile is not wanted any more'));
      return over;
    },
  };
}

/** Reads the counters of a kernel that passed verification, before it is timed, if its profiler is already waiting. */
export const profileVerifiedPhase: VariantPhase = {
  phase: Phase.PROFILE,
  wants: (_, { profiling }) => profiling !== undefined,
  async run(services, found) {
    startPhase(services, Phase.PROFILE, 0);
    const { profiling } = found;
    await profiling!.go(found.build!);
    found.profiled = profiling!.result.then((profile) => {
      keep(services, found, profile);
      found.judging?.look();
    });
    // The error reaches the phase that awaits the profile.
    found.profiled.catch(() => undefined);
    return undefined;
  },
};

/** Collects the counters that the profiler evaluated during the timing. */
export const profileReadPhase: VariantPhase = {
  phase: Phase.PROFILE,
  wants: (_, { profiled }) => profiled !== undefined,
  evenStopped: true,
  async run(_, found) {
    await found.profiled;
    delete found.profiled;
    return undefined;
  },
};

/** Reads the hardware counters of one shape. Bad counters stop nothing here, because gates decide about them. */
export const profilePhase: VariantPhase = {
  phase: Phase.PROFILE,
  wants: ({ spec }, { build, result }) =>
    spec.profile !== undefined && build?.image !== undefined && result.profile === undefined,
  async run(services, found) {
    const { spec, tools } = services;
    startPhase(services, Phase.PROFILE, 0);
    const counts = spec.device.simulated && tools.emulation().engine === 'ptx';
    const [options, build] = [spec.profile!, found.build!];
    const built = profiledBuild(build, options);
    const profile = counts
      ? countedProfile(services, { spec: options, ...built, build: build.result })
      : readCounters(services, { spec: options, built, signal: services.job.signal });
    keep(services, found, await profile);
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

const profiledBuild = ({ image, result }: KernelBuild, { shape }: ProfileSpec): ProfiledBuild => ({
  image: image!,
  waves: wavesFor(result, shape),
});

/** Waves of the entry with the most CTAs. */
function wavesFor({ entries }: BuildResult, shape: Shape): LaunchWaves | undefined {
  const own = entries.flatMap(({ waves }) => waves.filter((each) => each.shape === formatShape(shape)));
  return own.toSorted((a, b) => Number(b.ctas - a.ctas))[0];
}

interface CounterOptions {
  spec: ProfileSpec;
  /** As in the profiler's options. */
  built: ProfiledBuild | Promise<ProfiledBuild>;
  signal: AbortSignal;
  onLaunched?: () => void;
}

function readCounters(
  services: VariantServices,
  { spec, built, signal, onLaunched }: CounterOptions,
): Promise<ProfileResult> {
  const { job, runtime, resolved } = services;
  const { device, kernel } = services.spec;
  const { shape, metricSet, counters } = spec;
  const plan = planLaunches(kernel.manifest, resolved, shape);
  const accumulate = accumulateOf(kernel.manifest, resolved.parameters);
  // A profiler that waits for its build reports no progress, because another phase is running.
  let tells = !(built instanceof Promise);
  if (built instanceof Promise) void built.then(() => (tells = true));
  return runtime.instruments.profiler().profile(
    { device, shape, plan, metricSet, counters, accumulate },
    {
      signal,
      onProgress: (progress) => {
        if (tells) job.emit({ case: 'profileProgress', value: create(ProfileProgressSchema, progress) });
      },
      built,
      ...(onLaunched && {
        onLaunched: () => {
          tells = false;
          onLaunched();
        },
      }),
    },
  );
}
