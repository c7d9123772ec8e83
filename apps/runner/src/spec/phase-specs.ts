/** Fills in every default of a request's settings for verify, benchmark and profile. */
import {
  invalidRequest,
  type BenchmarkSettings,
  type Device,
  type ProfileSettings,
  type Shape,
  type Tolerance,
  type VerifySettings,
} from '@flashcore/shared/contract';
import {
  caseFlops,
  dtypeParameters,
  toleranceProfile,
  type Cases,
  type Manifest,
  type TensorDtype,
} from '@flashcore/shared/kernels';
import { planProtocol } from './benchmark-protocol.ts';
import {
  type ChosenShapes,
  type PlannedKernel,
  caseSet,
  chooseShapes,
  defaultShapes,
  requireDistributions,
} from './choose-shapes.ts';
import { drawForRun } from './drawn-shapes.ts';
import type { BenchmarkSpec, ProfileSpec, VerifySpec } from './job-spec.ts';
import { rivalsOf, sdpaBackendsOf } from './sdpa-spec.ts';

const DEFAULT_SEEDS = 5;
const LONG_PROBES = 'long_probes';
/**
 * Sets whose verification includes probes: the cases that a kernel must pass before its speed matters, and the probe
 * sets.
 */
const PROBED_SETS: readonly string[] = ['parity', 'probes', LONG_PROBES];

interface PlannedVerify extends PlannedKernel {
  device: Device;
  /** Whether the result may become a champion: the kernel then always runs the probes and drawn shapes. */
  acceptable: boolean;
}

export function planVerify(settings: Partial<VerifySettings>, planned: PlannedVerify): VerifySpec {
  const { cases, device, acceptable } = planned;
  const asked = settings.shapes ?? [];
  const set = settings.caseSet || cases.defaults.set;
  requireDistributions(settings.seeds ?? [], cases);
  const probes = acceptable || (asked.length === 0 && PROBED_SETS.includes(set));
  return {
    ...shapesOf({ asked, named: settings.caseSet, set: caseSet(set, cases, 'case_set') }, planned),
    seedCount: settings.seedCount || cases.defaults.seeds || DEFAULT_SEEDS,
    seeds: (settings.seeds ?? []).map((seed) => seed.replace(/^0x/i, '').toLowerCase()),
    tolerance: chooseTolerance(settings.tolerance, { cases, dtype: planned.resolved.dtype }),
    sanitize: settings.sanitize ?? false,
    probes,
    timedShapes: [],
    drawn: acceptable ? drawForRun(planned) : undefined,
    longProbes: probes && (!device.simulated || (asked.length === 0 && set === LONG_PROBES)),
  };
}

export function planBenchmark(
  settings: Partial<BenchmarkSettings>,
  planned: PlannedKernel & { device: Device },
): BenchmarkSpec {
  const { manifest, resolved } = planned;
  if (settings.dtype && settings.dtype !== resolved.dtype)
    throw invalidRequest({
      field: 'dtype',
      description: `must be ${resolved.dtype} or empty, got ${settings.dtype}: ${manifest.id} takes ${resolved.dtype} with these parameters${parametersText(manifest)}`,
    });
  const { modes, protocol } = planProtocol(settings.protocol, planned.device);
  const set = planned.device.simulated ? 'emulated' : 'canonical';
  const asked = settings.shapes ?? [];
  const chosen = caseSet(settings.shapeSet || set, planned.cases, 'shape_set');
  return {
    ...shapesOf({ asked, named: settings.shapeSet, set: chosen }, planned),
    modes,
    protocol,
    tolerance: chooseTolerance(undefined, { cases: planned.cases, dtype: planned.resolved.dtype }),
    sdpaBackends: sdpaBackendsOf(settings.sdpaBackends ?? []),
    rivals: rivalsOf(settings.rivals ?? []),
    reuseSdpa: false,
    legacyLaunches: legacyLaunches(settings.legacyLoop ?? false, planned.device),
  };
}

interface AskedShapes {
  asked: readonly Shape[];
  /** The set's name in the request; undefined for the default set. */
  named: string | undefined;
  set: readonly Shape[];
}

const shapesOf = ({ asked, named, set }: AskedShapes, planned: PlannedKernel): ChosenShapes =>
  asked.length > 0 || named ? { shapes: chooseShapes(asked, set, planned) } : defaultShapes(set, planned);

function parametersText(manifest: Manifest): string {
  const names = dtypeParameters(manifest);
  return names.length === 0 ? '' : `, and ${names.join(', ')} changes it`;
}

/** As in torch.utils.benchmark; on the emulator a launch may take a second. */
const LEGACY_LAUNCHES = { gpu: 100, simulated: 3 };

const legacyLaunches = (wanted: boolean, { simulated }: Device): number =>
  wanted ? LEGACY_LAUNCHES[simulated ? 'simulated' : 'gpu'] : 0;

/** FLOPs of a case that the emulator profiles in seconds. */
const MOST_EMULATED_FLOPS = 2e9;

/** The emulator profiles the problem's emulated case if the canonical one would take minutes. */
export function planProfile(
  settings: Partial<ProfileSettings>,
  planned: PlannedKernel & { device: Device },
): ProfileSpec {
  const { canonical, emulated } = planned.cases.sets;
  const { problem } = planned.manifest;
  const tooLarge = planned.device.simulated && caseFlops(problem, canonical[0]!) > MOST_EMULATED_FLOPS;
  const asked = settings.shape ? [settings.shape] : [];
  const {
    shapes: [shape],
    ...other
  } = shapesOf({ asked, named: undefined, set: tooLarge ? emulated : canonical }, planned);
  return {
    shape: shape!,
    ...other,
    metricSet: settings.metricSet || 'gates',
    counters: [...new Set(settings.counters)],
  };
}

interface Tolerances {
  cases: Cases;
  /** Dtype of the kernel's tensors. */
  dtype: TensorDtype;
}

/**
 * A tolerance whose numbers differ from the profile's gets no profile name, because a result within it says nothing
 * about the profile.
 */
export function chooseTolerance(asked: Tolerance | undefined, { cases, dtype }: Tolerances): VerifySpec['tolerance'] {
  const profile = asked?.profile || cases.defaults.tolerance;
  const { atol, rtol } = toleranceProfile(cases, profile, dtype);
  const { absolute = atol, relative = rtol } = asked ?? {};
  return { ...(absolute === atol && relative === rtol && { profile }), absolute, relative };
}
