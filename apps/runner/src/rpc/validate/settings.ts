import {
  TimingMode,
  type BenchmarkSettings,
  type ProfileSettings,
  type Shape,
  type Tolerance,
  type VerifySettings,
} from '@flashcore/shared/contract';
import { shapeViolations } from '@flashcore/shared/kernels';
import { checkKernelReference, checkVariant } from './kernel.ts';
import type { Violations } from './violations.ts';

const MAX_SHAPES = 64;
const MAX_SEEDS = 100;
const MAX_SDPA_BACKENDS = 16;
const MAX_SAMPLES = 1_000_000;
const MAX_SHAPE_SECONDS = 3600;
const TOLERANCE_PROFILES = ['', 'default', 'parity', 'strict'];
const METRIC_SETS = ['', 'gates', 'roofline', 'stalls', 'full'];

export function checkShapes(field: string, shapes: readonly Shape[], violations: Violations): void {
  violations.count(field, shapes, MAX_SHAPES);
  shapes
    .slice(0, MAX_SHAPES)
    .forEach((shape, index) => violations.addAll(shapeViolations(shape, `${field}[${index}]`)));
}

export function checkVerifySettings(field: string, settings: VerifySettings | undefined, violations: Violations): void {
  if (!settings) return;
  checkShapes(`${field}.shapes`, settings.shapes, violations);
  violations.range(`${field}.seed_count`, settings.seedCount, { least: 0, most: MAX_SEEDS });
  violations.count(`${field}.seeds`, settings.seeds, MAX_SEEDS);
  settings.seeds.slice(0, MAX_SEEDS).forEach((seed, index) => {
    if (!/^(0x)?[0-9a-f]{1,32}$/i.test(seed))
      violations.add(`${field}.seeds[${index}]`, 'must be 1 to 32 hexadecimal digits');
  });
  if (settings.tolerance) checkTolerance(`${field}.tolerance`, settings.tolerance, violations);
}

function checkTolerance(field: string, { profile = '', absolute, relative }: Tolerance, violations: Violations): void {
  if (!TOLERANCE_PROFILES.includes(profile))
    violations.add(`${field}.profile`, `must be one of ${TOLERANCE_PROFILES.slice(1).join(', ')}, or empty`);
  if (profile === '' && (absolute === undefined || relative === undefined))
    violations.add(field, 'must name a profile, or give both absolute and relative');
  violations.range(`${field}.absolute`, absolute ?? 0, { least: 0, most: 1e6 });
  violations.range(`${field}.relative`, relative ?? 0, { least: 0, most: 1e6 });
}

export function checkBenchmarkSettings(
  field: string,
  settings: BenchmarkSettings | undefined,
  violations: Violations,
): void {
  if (!settings) return;
  checkShapes(`${field}.shapes`, settings.shapes, violations);
  violations.count(`${field}.sdpa_backends`, settings.sdpaBackends, MAX_SDPA_BACKENDS);
  settings.sdpaBackends
    .slice(0, MAX_SDPA_BACKENDS)
    .forEach((backend, index) => violations.text(`${field}.sdpa_backends[${index}]`, backend));
  if (settings.champion) {
    checkKernelReference(settings.champion.kernel, violations, `${field}.champion.kernel`);
    checkVariant(settings.champion.variant, violations, `${field}.champion.variant`);
  }
  const { protocol } = settings;
  if (!protocol) return;
  const place = `${field}.protocol`;
  violations.range(`${place}.min_samples`, protocol.minSamples, { least: 0, most: MAX_SAMPLES });
  violations.range(`${place}.max_samples`, protocol.maxSamples, { least: 0, most: MAX_SAMPLES });
  if (protocol.maxSamples !== 0 && protocol.minSamples > protocol.maxSamples)
    violations.add(
      `${place}.min_samples`,
      `must be at most max_samples, ${protocol.maxSamples}, is ${protocol.minSamples}`,
    );
  violations.range(`${place}.max_seconds`, protocol.maxSeconds, { least: 0, most: MAX_SHAPE_SECONDS, unit: 's' });
  violations.range(`${place}.target_relative_half_width`, protocol.targetRelativeHalfWidth, { least: 0, most: 1 });
  violations.count(`${place}.modes`, protocol.modes, 2);
  protocol.modes
    .slice(0, 2)
    .forEach((mode, index) => violations.enumValue(`${place}.modes[${index}]`, mode, TimingMode));
}

export function checkProfileSettings(
  field: string,
  settings: ProfileSettings | undefined,
  violations: Violations,
): void {
  if (!settings) return;
  if (settings.shape) violations.addAll(shapeViolations(settings.shape, `${field}.shape`));
  if (!METRIC_SETS.includes(settings.metricSet))
    violations.add(`${field}.metric_set`, `must be one of ${METRIC_SETS.slice(1).join(', ')}, or empty`);
}
