import { create } from '@bufbuild/protobuf';
import {
  FlashcoreError,
  RunExperimentRequestSchema,
  VariantSchema,
  type AssignedRun,
  type Device,
  type RunExperimentRequest,
  type Shape,
  type Variant,
  type BenchmarkSettings,
} from '@flashcore/shared/contract';
import {
  layoutsOf,
  referenceSource,
  resolveVariant,
  type Cases,
  type Manifest,
  type ResolvedVariant,
  type PlannedGate,
} from '@flashcore/shared/kernels';
import type { JobMethod, JobRequests } from '../jobs/job-context.ts';
import { namesNoShapes, settingsOf } from './asked-settings.ts';
import { chooseArch, requireCompilers } from './choose-arch.ts';
import { chosenChampion, kernelOf, variantOf } from './choose-champion.ts';
import { chooseDevice } from './choose-device.ts';
import { acceptedShapes, shapeLaunches, uniqueShapes } from './choose-shapes.ts';
import { requireMemory } from './device-memory.ts';
import type { JobSpec, TuneSpec } from './job-spec.ts';
import { judgedBy, type JudgedBy } from './judged-by.ts';
import { planBenchmark, planProfile, planVerify } from './phase-specs.ts';
import { rankingOf, type PhaseSpecs } from './ranked-run.ts';
import type { SpecContext } from './spec-context.ts';
import { planVariants } from './tune-variants.ts';

/** Toggle that turns tensor cores off; kernels with this toggle get a fallback. */
export const WMMA_TOGGLE = 'USE_WMMA';

/**
 * A request's job spec. Errors: KERNEL_NOT_FOUND, INVALID_MANIFEST, INVALID_VARIANT, SHAPE_UNSUPPORTED,
 * ARCH_UNSUPPORTED, COMPILER_MISSING, INVALID_REQUEST …
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
  const arch = chooseArch({ method, manifest, resolved, device, emulation: context.emulation });
  requireCompilers(context, { arch, emulated: device.simulated && manifest.emulated !== false });
  const experiment = method === 'runExperiment' ? (request as JobRequests['runExperiment']) : undefined;
  const { gates } = context;
  const cases = context.cases(manifest.problem);
  // Refuses a problem without a reference before a job exists.
  if (manifest.problem.operation === 'own') referenceSource(manifest.problem);
  const judged = experiment && judgedBy(experiment, { manifest, arch, cases, gates });
  const parts = settingsOf({ method, request, judged, device });
  const planned: PlannedJob = { method, manifest, resolved, cases, device, judged };
  const phases = phaseSpecs(request, parts, planned);
  const { verify, benchmark, profile } = phases;
  requireMemory(device, { manifest, resolved }, { method, asked: parts, verify, benchmark, profile });
  const named = parts.benchmark?.champion;
  const { dtype } = resolved;
  const problem = manifest.problem.id;
  const layouts = layoutsOf(manifest, resolved.parameters);
  const asked = { method, benchmark, asked: parts.benchmark, context, device, dtype, layouts, problem };
  const { champion, noChampion, leftOut } = chosenChampion(kernel, {
    ...asked,
    judged,
    named,
    byDefault: method === 'tune' && !(request as JobRequests['tune']).champion,
    leftOut: experiment?.noChampion ?? false,
  });
  // On the emulator the parity cases of every variant would take minutes.
  if (method === 'tune' && device.simulated && verify && benchmark) verify.shapes = benchmark.shapes;
  const shapes = uniqueShapes([
    ...(verify?.shapes ?? []),
    ...(benchmark?.shapes ?? []),
    ...(profile ? [profile.shape] : []),
  ]);
  const ranking =
    experiment && judged
      ? rankingOf({
          request: experiment,
          judged,
          casesDigest: cases.digest,
          problem: manifest.problem,
          asked: phases,
          fixed: fixedPhases(experiment, planned),
          championLeftOut: leftOut,
        })
      : undefined;
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
    over: experiment?.assigned ? assignedChampion(experiment.assigned) : champion?.accepted,
    tune:
      method === 'tune'
        ? planTune(request as JobRequests['tune'], { manifest, device, shapes: benchmark!.shapes })
        : undefined,
    judged,
    ranking,
    heldOut: method === 'tune' || experiment?.heldOut || ranking?.reasons.length === 0 ? context.heldOut : [],
    fallback:
      judged && judged.plan.fallback !== 'none' && !experiment?.noFallback
        ? fallbackOf(manifest, variant, { resolved, device })
        : undefined,
    shapes:
      shapes.length > 0 ? shapes : acceptedShapes([...cases.sets.parity, ...cases.sets.canonical], manifest, resolved),
  };
  // Finds errors of the manifest's launch plans now, before a job exists.
  for (const each of [resolved, spec.fallback]) if (each) shapeLaunches(manifest, each, spec.shapes);
  return spec;
}

interface PlannedJob {
  method: JobMethod;
  manifest: Manifest;
  resolved: ResolvedVariant;
  cases: Cases;
  device: Device;
  judged: JudgedBy | undefined;
}

/** Plans the phases for a request's settings. Errors: INVALID_REQUEST, SHAPE_UNSUPPORTED. */
function phaseSpecs(
  request: JobRequests[JobMethod],
  parts: ReturnType<typeof settingsOf>,
  { method, judged, ...kernel }: PlannedJob,
): PhaseSpecs {
  const planned = { ...kernel, judged: judged !== undefined };
  const { manifest, resolved, device } = planned;
  const acceptable = judged?.plan.acceptable ?? false;
  const verify = parts.verify && planVerify(parts.verify, { ...planned, acceptable });
  const benchmark = parts.benchmark && planBenchmark(parts.benchmark, planned);
  // Adds shapes that gates name in addition to the plan's, if the request leaves the shapes to the plan.
  if (benchmark && judged && !device.simulated && namesNoShapes((request as RunExperimentRequest).benchmark))
    benchmark.shapes = uniqueShapes([...benchmark.shapes, ...acceptedShapes(judged.needs.shapes, manifest, resolved)]);
  if (verify && benchmark && acceptable) verify.timedShapes = benchmark.shapes;
  if (benchmark) benchmark.reuseSdpa = mayReuseSdpa(method, { asked: parts.benchmark, judged });
  return { verify, benchmark, profile: parts.profile && planProfile(parts.profile, planned) };
}

/** The phases of the same request without its own settings; or a text: why the plan can't be run. */
function fixedPhases({ plan, gatesYaml }: RunExperimentRequest, planned: PlannedJob): PhaseSpecs | string {
  const request = create(RunExperimentRequestSchema, { plan, gatesYaml });
  const { method, judged, device } = planned;
  try {
    return phaseSpecs(request, settingsOf({ method, request, judged, device }), planned);
  } catch (error) {
    // The kernel takes none of the plan's shapes, but may take those that the request names.
    if (!(error instanceof FlashcoreError)) throw error;
    return `the plan can't be run: ${error.message}`;
  }
}

/** The champion that a gateway named; undefined if there is none. */
const assignedChampion = ({ championJob, championLabel }: AssignedRun): JobSpec['over'] =>
  championJob === '' ? undefined : { job: championJob, label: championLabel };

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

/** The same variant without tensor cores, if the kernel has the toggle and it is on. */
export function fallbackOf(
  manifest: Manifest,
  variant: Variant | undefined,
  { resolved, device }: { resolved: ResolvedVariant; device: Device },
): ResolvedVariant | undefined {
  const toggle = manifest.parameters[WMMA_TOGGLE];
  if (!toggle?.values.includes(0) || resolved.parameters[WMMA_TOGGLE] === 0) return undefined;
  const asked = variant ?? create(VariantSchema);
  return resolveVariant(manifest, { ...asked, parameters: { ...asked.parameters, [WMMA_TOGGLE]: 0n } }, device);
}

interface Measured {
  asked: Partial<BenchmarkSettings> | undefined;
  judged: Pick<JudgedBy, 'gates'> | undefined;
}

/**
 * Whether an earlier job's SDPA figures may be used: in an experiment or a search, unless backends are named or a
 * deciding gate depends on SDPA.
 */
export function mayReuseSdpa(method: JobMethod, { asked, judged }: Measured): boolean {
  const { sdpaBackends = [], rivals = [] } = asked ?? {};
  if ((method !== 'runExperiment' && method !== 'tune') || sdpaBackends.length + rivals.length > 0) return false;
  const gates = judged?.gates ?? [];
  const restsOnSdpa = ({ metric, anyOf }: PlannedGate): boolean =>
    metric.name.includes('sdpa') || gates.some((member) => anyOf.includes(member.id) && restsOnSdpa(member));
  return !gates.some((gate) => gate.level === 'hard' && restsOnSdpa(gate));
}
