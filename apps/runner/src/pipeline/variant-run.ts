import { create } from '@bufbuild/protobuf';
import {
  Phase,
  ProfileProgressSchema,
  VariantResultSchema,
  type ProfileResult,
  type VariantResult,
} from '@flashcore/shared/contract';
import { planLaunches, type ResolvedVariant } from '@flashcore/shared/kernels';
import { runBenchmark } from './benchmark-phase.ts';
import { INPUT_SETS } from './benchmark-protocol.ts';
import { runBuild, stopsAfterBuild } from './build-phase.ts';
import { runComparison } from './comparison-phase.ts';
import { runGates } from './gates-phase.ts';
import { emitFindings, emitLog, startPhase, variantScope, type JobScope, type VariantScope } from './job-scope.ts';
import { profileFindings } from './profile-findings.ts';
import { warnOptionsWithoutEffect } from './launch-options.ts';
import { runVerify } from './verify-phase.ts';

/** A wait for the device that is longer is told. */
const TELL_WAIT_MS = 500;

/**
 * Takes one variant through the phases that the job has: build, verify, benchmark, profile, gates. What comes after a
 * failure is not run, and says so. The scope has the result from the start.
 */
export async function runVariant(
  job: JobScope,
  resolved: ResolvedVariant,
  { fallback }: { fallback: boolean },
): Promise<VariantResult> {
  const scope = variantScope(job, resolved);
  const { verify, benchmark, profile, method, champion } = scope.spec;
  const result = create(VariantResultSchema, {
    label: resolved.label,
    parameters: Object.fromEntries(Object.entries(resolved.parameters).map(([name, value]) => [name, BigInt(value)])),
    fallback,
  });
  scope.variants.push(result);
  const { build, skipped: notBuilt } = await buildOnWarmDevice(scope);
  warnOptionsWithoutEffect(scope);
  result.build = build.result;
  if (!fallback)
    Object.assign(scope.birth, { buildSources: build.sourceDigest, flagsDigest: build.result.flagsDigest });
  result.findings.push(...build.findings);
  let skipped = notBuilt;
  if (skipped === '' && build.image && verify) {
    const verification = await runVerify(scope, {
      spec: verify,
      image: build.image,
      races: method === 'verify' || method === 'runExperiment',
      onCase: (soFar) => {
        result.verify = soFar;
      },
    });
    result.verify = verification.result;
    result.findings.unshift(...verification.findings);
    if (!verification.passed) skipped = 'verification failed';
  }
  if (skipped === '' && build.image && benchmark) {
    const findings = await runBenchmark(scope, {
      spec: benchmark,
      image: build.image,
      onResults: (results) => result.benchmarks.push(...results),
    });
    result.findings.unshift(...findings);
    if (findings.length > 0) skipped = 'the kernel failed while it was timed';
  }
  if (skipped === '' && build.image && benchmark && champion && !fallback) {
    const { result: comparison, findings } = await runComparison(scope, {
      champion,
      spec: benchmark,
      candidate: { build, image: build.image, verify: result.verify },
    });
    result.comparison = comparison;
    result.findings.unshift(...findings);
    if (findings.length > 0) skipped = 'a kernel failed while both were compared';
  }
  if (skipped === '' && build.image && profile) {
    result.profile = await runProfile(scope, build.image);
    const findings = profileFindings(result.profile);
    emitFindings(scope.job, findings);
    result.findings.push(...findings);
  }
  if (method === 'runExperiment') result.gates = runGates(scope, result, { skipped });
  return result;
}

/** Compiles the kernel while the device's worker starts, which on first use means compiling the emulator. */
async function buildOnWarmDevice(
  scope: VariantScope,
): Promise<{ build: Awaited<ReturnType<typeof runBuild>>; skipped: string }> {
  const { job, runtime, spec } = scope;
  if (spec.method === 'build') return { build: await runBuild(scope), skipped: '' };
  const notNeeded = new AbortController();
  const [shape] = spec.benchmark?.shapes ?? [];
  if (spec.benchmark && shape)
    runtime.instruments.sdpa?.warmUp(shape, { modes: spec.benchmark.modes, inputSets: INPUT_SETS });
  else if (spec.verify) runtime.instruments.sdpa?.start();
  const warm = runtime.warmUp(AbortSignal.any([job.signal, notNeeded.signal])).then(
    () => ({ ready: true as const }),
    (error: unknown) => ({ ready: false as const, error }),
  );
  const build = await runBuild(scope).catch(async (error: unknown) => {
    notNeeded.abort();
    await warm;
    throw error;
  });
  const stops = stopsAfterBuild(build);
  if (stops) notNeeded.abort();
  // The emulator takes half a minute to compile, once a host: nobody should wonder what the job waits for.
  const telling = setTimeout(
    () =>
      emitLog(
        job,
        'runner',
        `waiting for ${spec.device.deviceId} to open${spec.device.simulated ? ': the first time, the emulator and the CPU reference are compiled for it' : ''}`,
      ),
    TELL_WAIT_MS,
  );
  const started = await warm;
  clearTimeout(telling);
  if (!started.ready && !stops) throw started.error;
  if (started.ready) scope.birth.conditions ??= await runtime.conditions(job.signal);
  return { build, skipped: stops ? 'the kernel was not built' : '' };
}

async function runProfile(scope: VariantScope, image: string): Promise<ProfileResult> {
  const { job, spec, runtime } = scope;
  const { shape, metricSet } = spec.profile!;
  startPhase(scope, Phase.PROFILE, 0);
  const plan = planLaunches(spec.kernel.manifest, scope.resolved, shape);
  const result = await runtime.instruments.profiler().profile(
    { device: spec.device, image, shape, plan, metricSet, accumulate: spec.kernel.manifest.math.accumulate },
    {
      signal: job.signal,
      onProgress: (progress) => job.emit({ case: 'profileProgress', value: create(ProfileProgressSchema, progress) }),
    },
  );
  job.emit({ case: 'profileResult', value: result });
  return result;
}
