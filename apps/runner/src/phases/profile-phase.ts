import { create } from '@bufbuild/protobuf';
import {
  Phase,
  ProfileProgressSchema,
  type BuildResult,
  type LaunchWaves,
  type ProfileResult,
  type Shape,
  FindingKind,
  FindingSchema,
  type Finding,
  type InstructionListingFile,
} from '@flashcore/shared/contract';
import { accumulateOf, formatShape, planLaunches } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { KernelBuild } from '../build/compiled-kernel.ts';
import { costliestLines, fileOf, lineOf, placesText } from '../profile/costly-lines.ts';
import { type ProfiledBuild, notMeasured } from '../profile/profiler.ts';
import type { ProfileSpec } from '../spec/job-spec.ts';
import { instructionListings } from './listed-instructions.ts';
import type { Profiling, VariantFound } from './job-found.ts';
import { emitFindings, startPhase, type VariantServices } from './job-services.ts';
import type { VariantPhase } from './phase.ts';
import type { DeviceImage } from '../../worker/messages/launchable.ts';
import { modelledResult } from '../profile/modelled-result.ts';
import { fillingOf, timeEstimate } from '../profile/time-estimate.ts';
import { describeOutcome } from '../workers/device-worker.ts';
import { drawAhead } from './benchmark-phase.ts';
import { candidateFor } from './candidate.ts';

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
    const [, timing] = await Promise.all([profiling!.go(found.build!), drawAhead(services)]);
    found.timing = timing;
    // The code is disassembled and the counters are evaluated while the kernel is timed.
    const listings = instructionListings(services, found.build!);
    found.profiled = Promise.all([profiling!.result, listings]).then(([profile, all]) => {
      keep(services, found, withListings(profile, all));
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
    keep(services, found, withListings(...(await Promise.all([profile, instructionListings(services, build)]))));
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

function withListings(profile: ProfileResult, listings: InstructionListingFile[]): ProfileResult {
  profile.listings = listings;
  return profile;
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
  /** See ProfileOptions. */
  built: ProfiledBuild | Promise<ProfiledBuild>;
  signal: AbortSignal;
  onLaunched?: () => void;
}

function readCounters(
  services: VariantServices,
  { spec, built, signal, onLaunched }: CounterOptions,
): Promise<ProfileResult> {
  const { job, runtime, resolved, tools } = services;
  const { device, kernel } = services.spec;
  const { shape, metricSet, counters } = spec;
  const plan = planLaunches(kernel.manifest, resolved, shape);
  const accumulate = accumulateOf(kernel.manifest, resolved.parameters);
  // A profiler that waits for its build reports no progress, because another phase is running.
  let tells = !(built instanceof Promise);
  if (built instanceof Promise) void built.then(() => (tells = true));
  return runtime.instruments.profiler().profile(
    {
      device,
      shape,
      plan,
      metricSet,
      counters,
      accumulate,
      sourceHas: (word) => services.frames.contains(word),
      referenceLibrary: () => tools.libraries.reference({ signal }),
      clockStamp: () => tools.libraries.clockStamp({ arch: device.arch, emulated: false }, { signal }),
    },
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

/** Above this, conflicts are reported; the gate in gates.yaml decides whether they reject the kernel. */
const MAX_CONFLICT_PERCENT = 5;
/** No request takes more. In a larger ratio are matrix loads: ncu counts their wavefronts, and not their requests. */
const MOST_WAVEFRONTS = 32;

/** Problems of a kernel that its counters show. */
export function profileFindings({ metrics, shape, lines }: ProfileResult): Finding[] {
  const valueOf = (name: string): number | undefined => metrics.find((metric) => metric.name === name)?.value;
  const share = valueOf('smem_bank_conflict_percent');
  if (share === undefined || share < MAX_CONFLICT_PERCENT || !shape) return [];
  const wavefronts = valueOf('smem_wavefronts_per_request');
  const { named, others } = costliestLines(
    lines.map(({ file, line, bankConflicts }) => ({ place: `${file}:${line}`, count: Number(bankConflicts) })),
    1,
  );
  const [worst] = named;
  const most = placesText(named.map(({ place }) => place));
  const asMuch = others === 0 ? '' : `, and as many on ${others} other lines`;
  return [
    create(FindingSchema, {
      kind: FindingKind.BANK_CONFLICTS,
      message: `${formatShape(shape)}: bank conflicts are ${share.toFixed(1)} % of the shared-memory wavefronts${wavefronts === undefined || wavefronts > MOST_WAVEFRONTS ? '' : `, and a request takes ${wavefronts.toFixed(1)} of them`}${worst === undefined ? '' : `; most of them at ${most}${asMuch}`}`,
      remedy:
        'Swizzle the rows of shared-memory tiles by XOR, or pad them, so that the lanes of an access fall into different banks',
      shape,
      ...(worst && { location: { file: fileOf(worst.place), line: Number(lineOf(worst.place)) } }),
    }),
  ];
}

interface CountOptions {
  spec: ProfileSpec;
  image: DeviceImage;
  build: BuildResult;
  waves: LaunchWaves | undefined;
}

const SEED = '666c617368';

/** The profile of a device without counters: the emulator's PTX engine counts what the kernel does. */
async function countedProfile(services: VariantServices, options: CountOptions): Promise<ProfileResult> {
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
    sourceHas: (word) => frames.contains(word),
  });
  result.estimate = timeEstimate(filling, outcome.value);
  return result;
}
