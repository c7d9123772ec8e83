/** Chooses the champion to compare a candidate with: the one that the request names, or the device's. */
import { create, toBinary } from '@bufbuild/protobuf';
import {
  FlashcoreError,
  KernelReferenceSchema,
  invalidRequest,
  type BenchmarkSettings,
  type Champion,
  type Device,
  type KernelVariant,
  VariantSchema,
  type KernelReference,
  type Variant,
} from '@flashcore/shared/contract';
import {
  type Manifest,
  type Problem,
  type ResolvedVariant,
  type TensorDtype,
  layoutsOf,
  planLaunches,
  requireShape,
  resolveVariant,
} from '@flashcore/shared/kernels';
import { EMULATOR_TIMES } from '@flashcore/shared/text';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import type { JobMethod } from '../jobs/job-context.ts';
import type { ResolvedKernel } from '../kernels.ts';
import { PROTOCOL_VERSION } from './benchmark-protocol.ts';
import { chooseArch, requireCompilers } from './choose-arch.ts';
import { acceptedShapes } from './choose-shapes.ts';
import type { BenchmarkSpec, ChampionSpec } from './job-spec.ts';
import type { JudgedBy } from './judged-by.ts';
import { chooseTolerance } from './phase-specs.ts';
import type { SpecContext } from './spec-context.ts';

interface ChampionContext {
  method: JobMethod;
  benchmark: BenchmarkSpec;
  asked: Partial<BenchmarkSettings> | undefined;
  context: SpecContext;
  device: Device;
  /** Dtype and layouts of the candidate's tensors, which the champion shares. */
  dtype: TensorDtype;
  layouts: Manifest['layouts'];
  /** Id of the candidate's problem; the champion must solve the same one. */
  problem: string;
}

/** Errors: as for the kernel of the job; the champion must take every compared shape, and qualify as a champion. */
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
  requireSameTensors(manifest, resolved, options);
  for (const shape of benchmark.shapes) planLaunches(manifest, resolved, shape);
  return championSpec({ kernel, resolved, shapes: benchmark.shapes, accepted: undefined }, options);
}

/** Errors: INVALID_REQUEST if the two can't be timed on the same tensors. */
function requireSameTensors(
  manifest: Manifest,
  { dtype, parameters }: ResolvedVariant,
  wanted: Pick<ChampionContext, 'dtype' | 'layouts' | 'problem'>,
): void {
  const { id, problem } = manifest;
  const refuse = (description: string): FlashcoreError => invalidRequest({ field: 'champion', description });
  if (problem.id !== wanted.problem)
    throw refuse(`must compute ${wanted.problem}, as the candidate does: ${id} computes ${problem.id}`);
  if (dtype !== wanted.dtype)
    throw refuse(
      `must take ${wanted.dtype} tensors, as the candidate does: ${id} with these parameters takes ${dtype}`,
    );
  const [own, its] = [wanted.layouts, layoutsOf(manifest, parameters)].map((layouts) => layoutsText(problem, layouts));
  if (own !== its)
    throw refuse(
      `must store its tensors as the candidate does, ${own}: ${id} with these parameters stores them ${its}; choose parameters of one layout`,
    );
}

/** The layouts that differ from the problem's, such as "Q as [B, S, H, D]". */
const layoutsText = ({ tensors }: Problem, layouts: Manifest['layouts']): string =>
  layouts
    .map(({ tensor, order }) => {
      const { dims } = tensors.find(({ name }) => name === tensor)!;
      return `${tensor} as [${order.map((dim) => dims[dim]!.text).join(', ')}]`;
    })
    .join(', ') || "in the problem's order";

function championSpec(
  { kernel, resolved, shapes, accepted: champion }: Pick<ChampionSpec, 'kernel' | 'resolved' | 'shapes' | 'accepted'>,
  { method, benchmark, asked, context, device }: ChampionContext,
): ChampionSpec {
  const { manifest } = kernel;
  const arch = chooseArch({ method, manifest, resolved, device, emulation: context.emulation });
  requireCompilers(context, { arch, emulated: device.simulated && manifest.emulated !== false });
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
      tolerance: chooseTolerance(undefined, {
        cases: context.cases(manifest.problem),
        dtype: resolved.dtype,
      }),
      sanitize: false,
      probes: false,
      longProbes: false,
      timedShapes: [],
      drawn: undefined,
    },
  };
}

interface AcceptedContext extends Omit<ChampionContext, 'benchmark'> {
  benchmark: BenchmarkSpec | undefined;
  judged: JudgedBy | undefined;
  /** Whether the request declines the comparison. */
  leftOut: boolean;
}

/** The champion to compare with. */
interface AcceptedChampion {
  champion: ChampionSpec | undefined;
  /** Why there is no champion, or none to compare times with. */
  noChampion: string | undefined;
  /** Why the candidate is not compared with a champion that exists or could be chosen. */
  leftOut: string | undefined;
}

interface ChampionChoice extends AcceptedContext {
  named: KernelVariant | undefined;
  /** Whether the request names no champion; `named` is then the unchanged kernel. */
  byDefault: boolean;
}

/** The named champion or the accepted one. A search prefers the accepted one to the unchanged kernel. */
export function chosenChampion(
  kernel: ResolvedKernel,
  { named, byDefault, benchmark, ...options }: ChampionChoice,
): AcceptedChampion {
  if (!named || !benchmark) return planAccepted(kernel, { ...options, benchmark });
  const current = byDefault ? planCurrent(kernel, { ...options, benchmark }) : undefined;
  if (current?.champion) return current;
  return { champion: planChampion(named, { ...options, benchmark }), noChampion: undefined, leftOut: undefined };
}

/** The device's champion if the plan compares with it; else why there is none. */
function planAccepted(
  kernel: ResolvedKernel,
  { judged, leftOut, benchmark, ...options }: AcceptedContext,
): AcceptedChampion {
  const none = (noChampion: string): AcceptedChampion => ({ champion: undefined, noChampion, leftOut: noChampion });
  if (!judged || !benchmark) return none('nothing was benchmarked');
  if (!judged.plan.champion) return none(`plan ${judged.plan.name} compares with no champion`);
  if (leftOut) return none('the request left the champion out');
  return planCurrent(kernel, { ...options, benchmark });
}

/** The device's champion on the benchmark's shapes, or the reason why the device has none. */
function planCurrent(kernel: ResolvedKernel, options: ChampionContext): AcceptedChampion {
  const none = (noChampion: string): AcceptedChampion => ({ champion: undefined, noChampion, leftOut: noChampion });
  const { context, device, benchmark, dtype, problem } = options;
  const place = { deviceName: device.name, protocol: PROTOCOL_VERSION, dtype, problem };
  const lineage = (): string[] => context.kernels.lineage(kernel);
  const found = benchmark.shapes
    .map((shape) => context.championFor(lineage, { ...place, shape }))
    .find((champion) => champion !== undefined);
  if (!found)
    return {
      ...none(
        `no ${dtype === 'fp16' ? '' : `${dtype} `}champion of ${device.name} by ${PROTOCOL_VERSION} on these shapes yet; an accepted result becomes one`,
      ),
      leftOut: undefined,
    };
  try {
    const champion = acceptedSpec(found, options);
    return { champion, noChampion: device.simulated ? EMULATOR_TIMES : undefined, leftOut: undefined };
  } catch (error) {
    // An accepted kernel may no longer build here; the candidate is then judged without it, and the result says so.
    if (!(error instanceof FlashcoreError)) throw error;
    return none(`the champion ${found.label} can't be compared with any more: ${error.message}`);
  }
}

/**
 * The champion, rebuilt from the sources stored with its build. A compiler other than the one of that build makes
 * another build.
 */
function acceptedSpec(champion: Champion, options: ChampionContext): ChampionSpec {
  const { build, ...kernel } = options.context.kernels.resolve(
    create(KernelReferenceSchema, { source: { case: 'buildId', value: champion.buildId } }),
  );
  const resolved = resolveVariant(kernel.manifest, build!.variant, options.device);
  requireSameTensors(kernel.manifest, resolved, options);
  const shapes = acceptedShapes(options.benchmark.shapes, kernel.manifest, resolved);
  if (shapes.length === 0) requireShape(kernel.manifest, resolved, options.benchmark.shapes[0]!);
  return championSpec({ kernel, resolved, shapes, accepted: champion }, options);
}

/** The kernel that a request names. Errors: INVALID_REQUEST if it names none. */
export function kernelOf(reference: KernelReference | undefined): KernelReference {
  if (!reference)
    throw invalidRequest({ field: 'kernel.source', description: 'must be set: a kernel_id, a tree or a build_id' });
  return reference;
}

/** The requested variant, or that of the build_id, which a request can't combine with another variant. */
export function variantOf({ build }: ResolvedKernel, asked: Variant | undefined, field: string): Variant | undefined {
  if (!build) return asked;
  if (asked && toBinary(VariantSchema, asked).byteLength > 0)
    throw invalidRequest({
      field,
      description: 'must be unset when a build_id is given: a build has its sources and its variant',
    });
  return build.variant;
}
