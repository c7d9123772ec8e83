import { create, toBinary } from '@bufbuild/protobuf';
import {
  FlashcoreError,
  KernelReferenceSchema,
  VariantSchema,
  invalidRequest,
  type BenchmarkSettings,
  type Champion,
  type Device,
  type KernelReference,
  KernelVariantSchema,
  type KernelVariant,
  type ProfileSettings,
  type Shape,
  type Tolerance,
  type Variant,
  type VerifySettings,
} from '@flashcore/shared/contract';
import {
  archMismatch,
  checkShape,
  formatShape,
  planLaunches,
  requireShape,
  resolveVariant,
  toleranceProfile,
  type Cases,
  type Manifest,
  type PlannedLaunch,
  type ResolvedVariant,
} from '@flashcore/shared/kernels';
import type { TimingModeName } from '../../worker/messages.ts';
import { missingCompiler } from '../build/missing-compiler.ts';
import type { Toolchain } from '../build/toolchain.ts';
import type { DeviceLoad, JobMethod, JobRequests } from '../jobs/job-context.ts';
import { requireMemory } from './device-memory.ts';
import { caseSet } from './case-set.ts';
import { chooseDevice } from './choose-device.ts';
import { sdpaBackendsOf } from './sdpa-backends.ts';
import { uniqueShapes } from './unique-shapes.ts';
import type { KernelCatalog, ResolvedKernel } from '../kernels.ts';
import { judgedBy, plannedSettings, type GatesText, type JudgedBy } from './judged-by.ts';
import type { ChampionPlace } from '../store/decisions.ts';
import { PROTOCOL_VERSION, planProtocol, type BenchmarkProtocolSpec } from './benchmark-protocol.ts';
import { planVariants, type VariantPlan } from './tune-variants.ts';

/** What to do, with every default filled in; all that a request can be wrong about was found while it was made. */
export interface JobSpec {
  method: JobMethod;
  kernel: ResolvedKernel;
  device: Device;
  resolved: ResolvedVariant;
  /** nvcc's target. */
  arch: string;
  /** The variant with USE_WMMA=0, to run where the one asked for fails; what it decides is the plan's. */
  fallback: ResolvedVariant | undefined;
  /** Plan and gates; an experiment's alone. */
  judged: JudgedBy | undefined;
  /** Launches of these shapes decide about dynamic shared memory and occupancy. */
  shapes: Shape[];
  verify: VerifySpec | undefined;
  benchmark: BenchmarkSpec | undefined;
  profile: ProfileSpec | undefined;
  /** What the variant asked for is compared with, on the shapes of the benchmark. */
  champion: ChampionSpec | undefined;
  /** Why there is none; empty: there is. */
  noChampion: string;
  /** A search over variants. */
  tune: TuneSpec | undefined;
  /** Shapes that no client sees, for what leads a search; empty: there are none, or the job is no search's. */
  heldOut: readonly Shape[];
}

/** Which variants a search looks at, and when it begins no other measurement. */
export interface TuneSpec {
  plan: VariantPlan;
  /** 0: no limit. */
  maxSeconds: number;
  maxUsd: number;
  remeasure: boolean;
}

export interface VerifySpec {
  shapes: Shape[];
  seedCount: number;
  /** Given by the request; empty: fresh ones. */
  seeds: string[];
  tolerance: { profile?: string; absolute: number; relative: number };
  /** Run a case under compute-sanitizer too, on a GPU. */
  sanitize: boolean;
  /** Whether small cases on inputs that break known mistakes come first. */
  probes: boolean;
}

export interface BenchmarkSpec {
  shapes: Shape[];
  modes: TimingModeName[];
  protocol: BenchmarkProtocolSpec;
  tolerance: { absolute: number; relative: number };
  /** Backends of SDPA measured in turns, for example "flash"; empty: all. */
  sdpaBackends: string[];
  /** Launches of the legacy loop; 0: none. */
  legacyLaunches: number;
}

export interface ChampionSpec {
  /** Set for the device's champion, which the request did not name: built, and timed where times say something. */
  accepted: Champion | undefined;
  /** Shapes that are compared. */
  shapes: Shape[];
  kernel: ResolvedKernel;
  resolved: ResolvedVariant;
  arch: string;
  /** Hot unless the request names modes: back to back the spread is the smaller one. */
  modes: TimingModeName[];
  /** One seed on each shape compared, before anything is timed. */
  verify: Omit<VerifySpec, 'shapes'>;
}

export interface ProfileSpec {
  shape: Shape;
  metricSet: string;
  /** Counters by the profiler's own names, beside those of the set. */
  counters: string[];
}

export interface SpecContext {
  devices: readonly Device[];
  kernels: KernelCatalog;
  toolchain: Toolchain;
  cases: Cases;
  /** kernels/gates.yaml; read for experiments alone. */
  gates: () => GatesText;
  /** The device's champion that a kernel of this lineage is compared with; undefined: there is none. */
  championFor: (lineage: readonly string[], place: ChampionPlace) => Champion | undefined;
  load: DeviceLoad;
  /** Shapes that the host keeps to itself. */
  heldOut: readonly Shape[];
}

/** Toggle that turns tensor cores off: kernels that have it get a fallback. */
export const WMMA_TOGGLE = 'USE_WMMA';
const DEFAULT_SEEDS = 5;
/** Of a variant in a search: it is verified again before anybody accepts it. */
const TUNE_SEEDS = 2;

/**
 * Errors: KERNEL_NOT_FOUND, INVALID_MANIFEST, INVALID_VARIANT, SHAPE_UNSUPPORTED, ARCH_UNSUPPORTED, COMPILER_MISSING,
 * INVALID_REQUEST …
 */
export function planSpec<Method extends JobMethod>(
  method: Method,
  request: JobRequests[Method],
  context: SpecContext,
): JobSpec {
  const device = chooseDevice(context, request.options?.deviceId ?? '');
  const kernel = context.kernels.resolve(kernelOf(request.kernel));
  const { manifest } = kernel;
  const variant = variantOf(kernel, request.variant, 'variant');
  const resolved = resolveVariant(manifest, variant, device);
  const arch = chooseArch({ method, manifest, resolved, device });
  requireCompilers(context.toolchain, { arch, emulated: device.simulated && manifest.emulated });
  const judged =
    method === 'runExperiment'
      ? judgedBy(request as JobRequests['runExperiment'], {
          manifest,
          arch,
          cases: context.cases,
          gates: context.gates,
        })
      : undefined;
  const parts = settingsOf({ method, request, judged, device });
  const verify = parts.verify && planVerify(parts.verify, { manifest, resolved, cases: context.cases });
  const benchmark =
    parts.benchmark && planBenchmark(parts.benchmark, { manifest, resolved, cases: context.cases, device });
  // Shapes that a gate names beside the plan's, where the request leaves the shapes to the plan.
  if (benchmark && judged && !device.simulated && namesNoShapes((request as JobRequests['runExperiment']).benchmark))
    benchmark.shapes = uniqueShapes([...benchmark.shapes, ...accepted(judged.needs.shapes, manifest, resolved)]);
  const profile = parts.profile && planProfile(parts.profile, { manifest, resolved, cases: context.cases });
  requireMemory(device, { manifest, resolved }, { method, asked: parts, verify, benchmark, profile });
  const named = parts.benchmark?.champion;
  const asked = { method, benchmark, asked: parts.benchmark, context, device };
  const { champion, noChampion } =
    named && benchmark
      ? { champion: planChampion(named, { ...asked, benchmark }), noChampion: '' }
      : planAccepted(kernel, { ...asked, judged, leftOut: noChampionAsked(method, request) });
  // The emulator would take minutes for the parity cases of every variant.
  if (method === 'tune' && device.simulated && verify && benchmark) verify.shapes = benchmark.shapes;
  const shapes = uniqueShapes([
    ...(verify?.shapes ?? []),
    ...(benchmark?.shapes ?? []),
    ...(profile ? [profile.shape] : []),
  ]);
  const spec: JobSpec = {
    method,
    kernel,
    device,
    resolved,
    arch,
    verify,
    benchmark,
    profile,
    champion,
    noChampion,
    tune:
      method === 'tune'
        ? planTune(request as JobRequests['tune'], { manifest, device, shapes: benchmark!.shapes })
        : undefined,
    judged,
    heldOut: isSearch(method, request) ? context.heldOut : [],
    fallback:
      judged && judged.plan.fallback !== 'none' && !(request as JobRequests['runExperiment']).noFallback
        ? fallbackOf(manifest, variant, { resolved, device })
        : undefined,
    shapes:
      shapes.length > 0
        ? shapes
        : accepted([...context.cases.sets.parity, ...context.cases.sets.canonical], manifest, resolved),
  };
  // What a manifest plans wrongly is known now: no job is made to tell it.
  for (const each of [resolved, spec.fallback]) if (each) shapeLaunches(manifest, each, spec.shapes);
  return spec;
}

const isSearch = (method: JobMethod, request: JobRequests[JobMethod]): boolean =>
  method === 'tune' || (method === 'runExperiment' && (request as JobRequests['runExperiment']).heldOut);

interface TuneParts {
  manifest: Manifest;
  device: Device;
  shapes: readonly Shape[];
}

const planTune = (request: JobRequests['tune'], of: TuneParts): TuneSpec => ({
  plan: planVariants(of.manifest, request, of),
  maxSeconds: request.maxSeconds,
  maxUsd: request.maxUsd,
  remeasure: request.remeasure,
});

/** Launches of the shapes that the kernel takes. */
export function shapeLaunches(
  manifest: Manifest,
  resolved: ResolvedVariant,
  shapes: readonly Shape[],
): (PlannedLaunch & { shape: string })[] {
  return accepted(shapes, manifest, resolved).flatMap((shape) =>
    planLaunches(manifest, resolved, shape).launches.map((launch) => ({ ...launch, shape: formatShape(shape) })),
  );
}

const namesNoShapes = (asked: BenchmarkSettings | undefined): boolean =>
  (asked?.shapes.length ?? 0) === 0 && (asked?.shapeSet ?? '') === '';

function kernelOf(reference: KernelReference | undefined): KernelReference {
  if (!reference)
    throw invalidRequest({ field: 'kernel.source', description: 'must be set: a kernel_id, a tree or a build_id' });
  return reference;
}

/** The variant asked for, or the one that a build_id stands for, beside which there must be no other. */
function variantOf({ build }: ResolvedKernel, asked: Variant | undefined, field: string): Variant | undefined {
  if (!build) return asked;
  if (asked && toBinary(VariantSchema, asked).byteLength > 0)
    throw invalidRequest({
      field,
      description: 'must be unset when a build_id is given: a build has its sources and its variant',
    });
  return build.variant;
}

interface ArchChoice {
  method: JobMethod;
  manifest: Manifest;
  resolved: ResolvedVariant;
  device: Device;
}

/** The target asked for, the device's own, or, to compile only, the least that the kernel can have. */
function chooseArch(options: ArchChoice): string {
  const { method, manifest, resolved, device } = options;
  const runs = method !== 'build';
  const wanted = resolved.arch ?? device.arch;
  const mismatch = archMismatch(manifest, wanted);
  const target = mismatch && !runs && !resolved.arch ? manifest.minArch : wanted;
  if (runs) requireRunnable(manifest, device, mismatch);
  // Only code for exactly this architecture has its instructions.
  return manifest.exactArch && target.replace(/[af]$/, '') === manifest.minArch.replace(/[af]$/, '')
    ? manifest.minArch
    : target;
}

function requireRunnable(manifest: Manifest, device: Device, mismatch: string | undefined): void {
  if (device.simulated && !manifest.emulated) {
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch: manifest.minArch, supported: device.arch },
      `Run ${manifest.id} on a GPU: it needs instructions of ${manifest.minArch} that the emulator does not have; here it can be built only`,
    );
  }
  if (mismatch)
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch: manifest.minArch, supported: device.arch },
      `Cannot run ${manifest.id} on ${device.deviceId}: ${mismatch}`,
    );
}

function requireCompilers(toolchain: Toolchain, { arch, emulated }: { arch: string; emulated: boolean }): void {
  const nvcc = toolchain.nvcc();
  if (nvcc && !nvcc.archs.includes(arch)) {
    throw new FlashcoreError(
      'ARCH_UNSUPPORTED',
      { arch, supported: nvcc.archs.join(',') },
      `Cannot build for ${arch}: this nvcc (${nvcc.version}) supports ${nvcc.archs.join(', ')}`,
    );
  }
  if (!nvcc && !emulated) throw missingCompiler('nvcc');
  if (emulated && !toolchain.cxx()) throw missingCompiler('g++');
}

interface Settings {
  verify?: Partial<VerifySettings>;
  benchmark?: Partial<BenchmarkSettings>;
  profile?: Partial<ProfileSettings>;
}

interface Asked {
  method: JobMethod;
  request: JobRequests[JobMethod];
  judged: JudgedBy | undefined;
  device: Device;
}

/** The parts of a job, with the settings that the request has for them; what it leaves open is the plan's. */
function settingsOf({ method, request, judged, device }: Asked): Settings {
  switch (method) {
    case 'build':
      return {};
    case 'verify':
      return { verify: (request as JobRequests['verify']).settings ?? {} };
    case 'benchmark': {
      const settings: Partial<BenchmarkSettings> = (request as JobRequests['benchmark']).settings ?? {};
      const shapes = settings.shapes ?? [];
      // Nothing wrong is measured: one case is checked before; where two builds are compared, all that they are
      // compared on.
      return { verify: { shapes: settings.champion ? shapes : shapes.slice(0, 1), seedCount: 1 }, benchmark: settings };
    }
    case 'profile':
      return { profile: (request as JobRequests['profile']).settings ?? {} };
    case 'tune': {
      const { shapes, kernel, variant, champion } = request as JobRequests['tune'];
      // The winner is compared back to back, with the kernel as it is where no other champion is named.
      return {
        verify: { shapes: shapes.length > 0 ? shapes : [], seedCount: TUNE_SEEDS },
        benchmark: { shapes, champion: champion ?? create(KernelVariantSchema, { kernel, variant }) },
      };
    }
    case 'runExperiment': {
      return plannedSettings(request as JobRequests['runExperiment'], judged!, device);
    }
  }
}

interface PlannedKernel {
  manifest: Manifest;
  resolved: ResolvedVariant;
  cases: Cases;
}

/** The cases that a kernel must pass before anyone looks at its speed, and the probes for themselves. */
const PROBED_SETS: readonly string[] = ['parity', 'probes'];

function planVerify(settings: Partial<VerifySettings>, planned: PlannedKernel): VerifySpec {
  const { cases } = planned;
  return {
    shapes: chooseShapes(
      settings.shapes ?? [],
      caseSet(settings.caseSet || cases.defaults.set, cases, 'case_set'),
      planned,
    ),
    seedCount: settings.seedCount || cases.defaults.seeds || DEFAULT_SEEDS,
    seeds: (settings.seeds ?? []).map((seed) => seed.replace(/^0x/i, '').toLowerCase()),
    tolerance: chooseTolerance(settings.tolerance, cases),
    sanitize: settings.sanitize ?? false,
    probes: (settings.shapes ?? []).length === 0 && PROBED_SETS.includes(settings.caseSet || cases.defaults.set),
  };
}

function planBenchmark(
  settings: Partial<BenchmarkSettings>,
  planned: PlannedKernel & { device: Device },
): BenchmarkSpec {
  const { modes, protocol } = planProtocol(settings.protocol, planned.device);
  const { absolute, relative } = chooseTolerance(undefined, planned.cases);
  const set = planned.device.simulated ? 'emulated' : 'canonical';
  return {
    shapes: chooseShapes(settings.shapes ?? [], caseSet(settings.shapeSet || set, planned.cases, 'shape_set'), planned),
    modes,
    protocol,
    tolerance: { absolute, relative },
    sdpaBackends: sdpaBackendsOf(settings.sdpaBackends ?? []),
    legacyLaunches: legacyLaunches(settings.legacyLoop ?? false, planned.device),
  };
}

/** As torch.utils.benchmark's; on the emulator a launch may take a second. */
const LEGACY_LAUNCHES = { gpu: 100, simulated: 3 };

const legacyLaunches = (wanted: boolean, { simulated }: Device): number =>
  wanted ? LEGACY_LAUNCHES[simulated ? 'simulated' : 'gpu'] : 0;

interface ChampionContext {
  method: JobMethod;
  benchmark: BenchmarkSpec;
  asked: Partial<BenchmarkSettings> | undefined;
  context: SpecContext;
  device: Device;
}

/** Errors: as for the kernel of the job; the champion must take every shape that is compared, and be fit to be one. */
function planChampion(named: KernelVariant, options: ChampionContext): ChampionSpec {
  const { benchmark, context, device } = options;
  const kernel = context.kernels.resolve(kernelOf(named.kernel));
  const { manifest } = kernel;
  if (manifest.deprecated !== undefined)
    throw invalidRequest({
      field: 'champion.kernel',
      description: `must not be deprecated: ${manifest.id} is, ${manifest.deprecated}`,
    });
  const resolved = resolveVariant(manifest, variantOf(kernel, named.variant, 'champion.variant'), device);
  for (const shape of benchmark.shapes) planLaunches(manifest, resolved, shape);
  return championSpec({ kernel, resolved, shapes: benchmark.shapes, accepted: undefined }, options);
}

function championSpec(
  { kernel, resolved, shapes, accepted: champion }: Pick<ChampionSpec, 'kernel' | 'resolved' | 'shapes' | 'accepted'>,
  { method, benchmark, asked, context, device }: ChampionContext,
): ChampionSpec {
  const { manifest } = kernel;
  const arch = chooseArch({ method, manifest, resolved, device });
  requireCompilers(context.toolchain, { arch, emulated: device.simulated && manifest.emulated });
  const modes: TimingModeName[] =
    champion === undefined && (asked?.protocol?.modes ?? []).length > 0 ? benchmark.modes : ['hot'];
  return {
    accepted: champion,
    shapes,
    kernel,
    resolved,
    arch,
    modes,
    verify: {
      seedCount: 1,
      seeds: [],
      tolerance: chooseTolerance(undefined, context.cases),
      sanitize: false,
      probes: false,
    },
  };
}

interface AcceptedContext extends Omit<ChampionContext, 'benchmark'> {
  benchmark: BenchmarkSpec | undefined;
  judged: JudgedBy | undefined;
  /** The request does not want it. */
  leftOut: boolean;
}

/** The device's champion, where the plan compares with it; else why there is none. */
function planAccepted(
  kernel: ResolvedKernel,
  { judged, leftOut, benchmark, ...options }: AcceptedContext,
): { champion: ChampionSpec | undefined; noChampion: string } {
  const none = (noChampion: string) => ({ champion: undefined, noChampion });
  if (!judged || !benchmark) return none('nothing was benchmarked');
  if (!judged.plan.champion) return none(`plan ${judged.plan.name} compares with no champion`);
  if (leftOut) return none('the request left the champion out');
  const { context, device } = options;
  const place = { deviceName: device.name, protocol: PROTOCOL_VERSION };
  const lineage = context.kernels.lineage(kernel);
  const found = benchmark.shapes
    .map((shape) => context.championFor(lineage, { ...place, shape }))
    .find((champion) => champion !== undefined);
  if (!found)
    return none(`no champion of ${device.name} by ${PROTOCOL_VERSION} on these shapes yet: fa-tui accept makes one`);
  try {
    const champion = acceptedSpec(found, { ...options, benchmark });
    return { champion, noChampion: device.simulated ? 'emulator times are not GPU times' : '' };
  } catch (error) {
    // What was accepted may not build here any more; the candidate is judged without it, and says so.
    if (!(error instanceof FlashcoreError)) throw error;
    return none(`the champion ${found.label} can't be compared with any more: ${error.message}`);
  }
}

/**
 * From the sources that were kept when it was built; with another compiler they give another build of the same source.
 */
function acceptedSpec(champion: Champion, options: ChampionContext): ChampionSpec {
  const { build, ...kernel } = options.context.kernels.resolve(
    create(KernelReferenceSchema, { source: { case: 'buildId', value: champion.buildId } }),
  );
  const resolved = resolveVariant(kernel.manifest, build!.variant, options.device);
  const shapes = accepted(options.benchmark.shapes, kernel.manifest, resolved);
  if (shapes.length === 0) requireShape(kernel.manifest, resolved, options.benchmark.shapes[0]!);
  return championSpec({ kernel, resolved, shapes, accepted: champion }, options);
}

const noChampionAsked = (method: JobMethod, request: JobRequests[JobMethod]): boolean =>
  method === 'runExperiment' && (request as JobRequests['runExperiment']).noChampion;

function planProfile(settings: Partial<ProfileSettings>, planned: PlannedKernel): ProfileSpec {
  const [shape] = chooseShapes(settings.shape ? [settings.shape] : [], planned.cases.sets.canonical, planned);
  return { shape: shape!, metricSet: settings.metricSet || 'gates', counters: [...new Set(settings.counters)] };
}

/**
 * Shapes that were asked for must all be taken; of a set it is enough when the kernel takes one (the others are
 * reported as refused).
 */
function chooseShapes(asked: readonly Shape[], set: readonly Shape[], { manifest, resolved }: PlannedKernel): Shape[] {
  if (asked.length > 0) {
    for (const shape of asked) planLaunches(manifest, resolved, shape);
    return uniqueShapes(asked);
  }
  if (accepted(set, manifest, resolved).length === 0) requireShape(manifest, resolved, set[0]!);
  return [...set];
}

function accepted(shapes: readonly Shape[], manifest: Manifest, resolved: ResolvedVariant): Shape[] {
  return shapes.filter((shape) => checkShape(manifest, resolved, shape) === undefined);
}

function chooseTolerance(asked: Tolerance | undefined, cases: Cases): VerifySpec['tolerance'] {
  if (asked?.absolute !== undefined && asked.relative !== undefined)
    return { ...(asked.profile && { profile: asked.profile }), absolute: asked.absolute, relative: asked.relative };
  const profile = asked?.profile || cases.defaults.tolerance;
  const { atol, rtol } = toleranceProfile(cases, profile);
  return { profile, absolute: asked?.absolute ?? atol, relative: asked?.relative ?? rtol };
}

/** The same variant without tensor cores, where the kernel has the toggle and it is on. */
function fallbackOf(
  manifest: Manifest,
  variant: Variant | undefined,
  { resolved, device }: { resolved: ResolvedVariant; device: Device },
): ResolvedVariant | undefined {
  const toggle = manifest.parameters[WMMA_TOGGLE];
  if (!toggle?.values.includes(0) || resolved.parameters[WMMA_TOGGLE] === 0) return undefined;
  const asked = variant ?? create(VariantSchema);
  return resolveVariant(manifest, { ...asked, parameters: { ...asked.parameters, [WMMA_TOGGLE]: 0n } }, device);
}
