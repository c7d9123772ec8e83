import { COST_FINDINGS, Phase, FlashcoreError } from '@flashcore/shared/contract';
import { problemCase, valuesOf } from '@flashcore/shared/kernels';
import type { BuildListener } from '../build/compile-cache.ts';
import type { UsualTime } from '../build/compile-unit.ts';
import type { KernelBuild } from '../build/compiled-kernel.ts';
import { ToolLog } from '../build/tool-log.ts';
import type { JobContext } from '../jobs/job-context.ts';
import { whyNotSdpa } from '../spec/sdpa-spec.ts';
import { variantMessage } from '../spec/job-spec.ts';
import { warnOfPlan } from './candidate.ts';
import {
  emitFindings,
  emitLog,
  emitWarning,
  startPhase,
  type VariantServices,
  variantServices,
  type JobServices,
} from './job-services.ts';
import type { BuildBeside, VariantFound } from './job-found.ts';
import type { VariantPhase } from './phase.ts';
import { profileBeside } from './profile-phase.ts';
import { comingVerification } from './coming-verification.ts';
import { launchedEntries, judgeKeptState } from './rest-of-build-phase.ts';
import { describeOutcome } from '../workers/device-worker.ts';

/** Longer waits for the device are reported. */
const TELL_WAIT_MS = 500;

/** Compiles the variant while the device's worker starts. */
export const buildPhase: VariantPhase = {
  phase: Phase.BUILD,
  wants: () => true,
  async run(services, found) {
    const { result, job } = found;
    const build = await buildOnWarmDevice(services, found);
    warnOfPlan(services);
    if (!result.fallback)
      Object.assign(job.birth, { buildSources: build.sourceDigest, flagsDigest: build.result.flagsDigest });
    result.findings.push(...build.findings);
    if (stopsAfterBuild(build)) return 'the kernel was not built';
    if (!result.fallback) job.fallbackBuild ??= compileFallback(services);
    return undefined;
  },
};

/**
 * Compiles the kernel while the profiler gets ready and the device's worker starts. The worker's first start includes
 * compiling the emulator.
 */
async function buildOnWarmDevice(services: VariantServices, found: VariantFound): Promise<KernelBuild> {
  const { job, runtime, spec } = services;
  if (spec.method === 'build') return withBuild(found, await runBuild(services));
  const notNeeded = new AbortController();
  const [shape] = spec.benchmark?.shapes ?? [];
  const { problem } = spec.kernel.manifest;
  const { sdpa } = runtime.instruments;
  const { dtype } = services.resolved;
  // Rivals can't be prepared yet, because they are checked on inputs that are not drawn yet.
  const asked = (spec.benchmark?.rivals ?? []).length > 0;
  if (spec.benchmark && shape && !asked && whyNotSdpa(problem, shape, dtype) === undefined)
    sdpa?.warmUp(problemCase(problem, valuesOf(shape), dtype), spec.benchmark.modes);
  else if (asked || (spec.verify && problem.baselines.includes('sdpa'))) sdpa?.start();
  const warm = warmUp(services, found, AbortSignal.any([job.signal, notNeeded.signal])).then(
    () => ({ ready: true as const }),
    (error: unknown) => ({ ready: false as const, error }),
  );
  const profiling = profileBeside(services);
  if (profiling) found.profiling = profiling;
  // A build for another host must be complete before that host starts.
  const first = services.compiling ? undefined : launchedEntries(services);
  const build = await runBuild(services, first).catch(async (error: unknown) => {
    notNeeded.abort();
    await warm;
    throw error;
  });
  withBuild(found, build);
  // The device may take half a minute to open, so gates that the build decides are reported now.
  found.judging?.look();
  const stops = stopsAfterBuild(build);
  if (stops) notNeeded.abort();
  const telling = setTimeout(
    () => emitLog(job, 'runner', `waiting for ${spec.device.deviceId} to start`),
    TELL_WAIT_MS,
  );
  const waitedSince = performance.now();
  const started = await warm;
  found.waitSeconds = (performance.now() - waitedSince) / 1000;
  clearTimeout(telling);
  if (!started.ready && !stops) throw started.error;
  return build;
}

/**
 * Opens the device, records its state, and lets a GPU's host compute the references that the verification will need.
 */
async function warmUp(services: VariantServices, found: VariantFound, signal: AbortSignal): Promise<void> {
  const { job, runtime, spec } = services;
  await runtime.warmUp(signal);
  // From here on, requests get the job's signal: a request abandoned through `signal` would end the worker.
  signal.throwIfAborted();
  found.job.birth.conditions ??= await runtime.conditions(job.signal);
  // On the emulator, the kernels and their compilers need the CPUs.
  if (!spec.verify || spec.device.simulated || signal.aborted) return;
  const coming = comingVerification(services, spec.verify);
  found.inputs = coming.inputs;
  const prepared = await runtime.request({ type: 'prepare', cases: coming.cases }, { signal: job.signal });
  if (prepared.status !== 'done')
    emitLog(job, 'runner', `the reference was not computed ahead: ${describeOutcome(prepared)}`);
}

function withBuild(found: VariantFound, build: KernelBuild): KernelBuild {
  found.build = build;
  found.result.build = build.result;
  return build;
}

/** Whether nothing can run: the build failed, lacks its entry, or could not be launched. */
export function stopsAfterBuild({ image, findings }: KernelBuild): boolean {
  return image === undefined || findings.some(({ kind }) => !COST_FINDINGS.has(kind));
}

/** Compiles a variant, streaming the compilers' output; `first`: entries to wait for. */
export async function runBuild(services: VariantServices, first?: readonly string[]): Promise<KernelBuild> {
  const { job, tools } = services;
  startPhase(services, Phase.BUILD, 0);
  const log = new ToolLog((source, line) => emitLog(job, source, line));
  const build = await tools.kernels
    .build(
      { ...services.build, first },
      { signal: job.signal, onLine: log.add, ...tellingFirst(job), ...services.compiling },
    )
    .finally(() => log.end());
  judgeKeptState(services, build);
  services.frames.open(build.sources);
  for (const diagnostic of build.result.diagnostics) job.emit({ case: 'diagnostic', value: diagnostic });
  job.emit({ case: 'buildResult', value: build.result });
  if (build.sassMissing !== undefined) emitWarning(job, `No SASS listing was kept: ${build.sassMissing}`);
  emitFindings(services, build.findings);
  if (build.complete) emitLog(job, 'runner', restText(first ?? [], services.build.entries));
  if (build.result.succeeded) keepBuild(services, build.result.buildId);
  return build;
}

/** Logs once which build is awaited, and how long the last such compilation took. */
function tellingFirst(job: JobContext): Pick<BuildListener, 'onStart' | 'onWait'> {
  let hasTold = false;
  const tell = (text: string, usual: UsualTime): void => {
    const known = usual === undefined ? '' : `; the last one took ${usual.toFixed(1)} s`;
    if (!hasTold) emitLog(job, 'runner', `${text}${known}`);
    hasTold = true;
  };
  return {
    onStart: (usual) => usual !== undefined && tell('building the kernel', usual),
    onWait: ({ aside, seconds, usual }) =>
      tell(
        aside
          ? `waiting for the build begun ${seconds.toFixed(0)} s ago, while the job was queued; it now has normal priority`
          : `waiting for the same build, begun ${seconds.toFixed(0)} s ago for another job`,
        usual,
      ),
  };
}

function restText(first: readonly string[], entries: readonly string[]): string {
  const rest = entries.length - first.length;
  return `${first.join(', ')} first; ${rest} more ${rest === 1 ? 'entry is' : 'entries are'} compiled in the meantime, at the lowest priority`;
}

/**
 * Stores the build's sources and variant, so that the build can be requested by id. Errors: BUILD_NOT_FOUND if the
 * request named a build and compiling gave another, about which nothing may be reported.
 */
function keepBuild({ spec: { kernel, fallback }, kernels, resolved }: VariantServices, buildId: string): void {
  const wanted = resolved === fallback ? undefined : kernel.build?.id;
  if (wanted !== undefined && wanted !== buildId) {
    throw new FlashcoreError(
      'BUILD_NOT_FOUND',
      { build_id: wanted, found: buildId },
      `Compiler, device or shared headers of this runner have changed since ${wanted}, whose sources now give ${buildId}: build the kernel again`,
    );
  }
  kernels.keepBuild(buildId, kernel, variantMessage(resolved));
}

/**
 * Compiles a job's fallback at the lowest priority while its variant is verified and timed, so that it is in the cache
 * if it is needed. Does nothing and returns undefined in three cases: the job has no fallback, it runs on the emulator
 * (where kernels need the CPUs themselves), or the build is for another host.
 */
export function compileFallback(services: JobServices): BuildBeside | undefined {
  const { spec, tools, job, compiling } = services;
  if (!spec.fallback || spec.device.simulated || compiling) return undefined;
  const dropped = new AbortController();
  const { build } = variantServices(services, spec.fallback);
  const over = tools.kernels.build(build, { signal: AbortSignal.any([job.signal, dropped.signal]), aside: true }).then(
    () => undefined,
    // If the fallback is needed, its own build reports the error.
    () => undefined,
  );
  return {
    drop: () => {
      dropped.abort(new Error('the fallback is not wanted'));
      return over;
    },
  };
}
