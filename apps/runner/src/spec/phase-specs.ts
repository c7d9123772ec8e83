/** What a request's settings for verify, benchmark and profile come to, with every default filled in. */
import type { BenchmarkSettings, Device, ProfileSettings, Tolerance, VerifySettings } from '@flashcore/shared/contract';
import { toleranceProfile, type Cases } from '@flashcore/shared/kernels';
import { planProtocol } from './benchmark-protocol.ts';
import { caseSet } from './case-set.ts';
import { chooseShapes, type PlannedKernel } from './choose-shapes.ts';
import type { BenchmarkSpec, ProfileSpec, VerifySpec } from './job-spec.ts';
import { sdpaBackendsOf } from './sdpa-backends.ts';

const DEFAULT_SEEDS = 5;
/** The cases that a kernel must pass before anyone looks at its speed, and the probes for themselves. */
const PROBED_SETS: readonly string[] = ['parity', 'probes'];

export function planVerify(settings: Partial<VerifySettings>, planned: PlannedKernel): VerifySpec {
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

export function planBenchmark(
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

export function planProfile(settings: Partial<ProfileSettings>, planned: PlannedKernel): ProfileSpec {
  const [shape] = chooseShapes(settings.shape ? [settings.shape] : [], planned.cases.sets.canonical, planned);
  return { shape: shape!, metricSet: settings.metricSet || 'gates', counters: [...new Set(settings.counters)] };
}

export function chooseTolerance(asked: Tolerance | undefined, cases: Cases): VerifySpec['tolerance'] {
  if (asked?.absolute !== undefined && asked.relative !== undefined)
    return { ...(asked.profile && { profile: asked.profile }), absolute: asked.absolute, relative: asked.relative };
  const profile = asked?.profile || cases.defaults.tolerance;
  const { atol, rtol } = toleranceProfile(cases, profile);
  return { profile, absolute: asked?.absolute ?? atol, relative: asked?.relative ?? rtol };
}
