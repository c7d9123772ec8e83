import { toBinary } from '@bufbuild/protobuf';
import {
  TimingMode,
  VariantSchema,
  type BenchmarkSettings,
  type ProfileSettings,
  type RunExperimentRequest,
  type Shape,
  type Tolerance,
  type Variant,
  type VerifySettings,
} from '@flashcore/shared/contract';
import { isCounter, shapeViolations } from '@flashcore/shared/kernels';
import { checkKernelReference, checkVariant } from './kernel.ts';
import type { Violations } from './violations.ts';

const MAX_SHAPES = 64;
const MAX_SEEDS = 100;
const MAX_SDPA_BACKENDS = 16;
const MAX_SAMPLES = 1_000_000;
const MAX_SHAPE_SECONDS = 3600;
const METRIC_SETS = ['', 'gates', 'roofline', 'stalls', 'full', 'none'];
const MAX_COUNTERS = 64;
const MAX_GATES_BYTES = 64 * 1024;

export function checkShapes(field: string, shapes: readonly Shape[], violations: Violations): void {
  violations.count(field, shapes, MAX_SHAPES);
  shapes
    .slice(0, MAX_SHAPES)
    .forEach((shape, index) => violations.addAll(shapeViolations(shape, `${field}[${index}]`)));
}

export function checkVerifySettings(field: string, settings: VerifySettings | undefined, violations: Violations): void {
  if (!settings) return;
  checkShapes(`${field}.shapes`, settings.shapes, violations);
  checkSet({ field: `${field}.case_set`, name: settings.caseSet, shapes: settings.shapes }, violations);
  violations.range(`${field}.seed_count`, settings.seedCount, { least: 0, most: MAX_SEEDS });
  violations.count(`${field}.seeds`, settings.seeds, MAX_SEEDS);
  settings.seeds.slice(0, MAX_SEEDS).forEach((seed, index) => {
    if (!/^(0x)?[0-9a-f]{1,32}(@[a-z]\w{0,63})?$/i.test(seed))
      violations.add(
        `${field}.seeds[${index}]`,
        'must be 1 to 32 hexadecimal digits, and may have @ and a distribution of cases.yaml behind them',
      );
  });
  if (settings.tolerance) checkTolerance(`${field}.tolerance`, settings.tolerance, violations);
}

/** Only the planner knows which profiles cases.yaml has. */
function checkTolerance(field: string, { profile = '', absolute, relative }: Tolerance, violations: Violations): void {
  violations.text(`${field}.profile`, profile, 64);
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
  checkSet({ field: `${field}.shape_set`, name: settings.shapeSet, shapes: settings.shapes }, violations);
  violations.dtype(`${field}.dtype`, settings.dtype);
  violations.count(`${field}.sdpa_backends`, settings.sdpaBackends, MAX_SDPA_BACKENDS);
  settings.sdpaBackends
    .slice(0, MAX_SDPA_BACKENDS)
    .forEach((backend, index) => violations.text(`${field}.sdpa_backends[${index}]`, backend));
  violations.count(`${field}.rivals`, settings.rivals, MAX_SDPA_BACKENDS);
  settings.rivals
    .slice(0, MAX_SDPA_BACKENDS)
    .forEach((rival, index) => violations.text(`${field}.rivals[${index}]`, rival));
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
      `must be at most max_samples, ${protocol.maxSamples}, got ${protocol.minSamples}`,
    );
  violations.range(`${place}.max_seconds`, protocol.maxSeconds, { least: 0, most: MAX_SHAPE_SECONDS, unit: 's' });
  violations.range(`${place}.target_relative_half_width`, protocol.targetRelativeHalfWidth, { least: 0, most: 1 });
  violations.count(`${place}.modes`, protocol.modes, 2);
  protocol.modes
    .slice(0, 2)
    .forEach((mode, index) => violations.enumValue(`${place}.modes[${index}]`, mode, TimingMode));
}

/** Settings that need a kernel are refused rather than ignored. */
export function checkSdpaAlone(
  { variant, settings }: { variant: Variant | undefined; settings: BenchmarkSettings },
  violations: Violations,
): void {
  const alone = 'must be unset without a kernel: SDPA is measured alone';
  if (variant && toBinary(VariantSchema, variant).byteLength > 0) violations.add('variant', alone);
  if (settings.champion) violations.add('settings.champion', alone);
  if (settings.legacyLoop) violations.add('settings.legacy_loop', alone);
  if (settings.rivals.length > 0) violations.add('settings.rivals', alone);
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
  violations.count(`${field}.counters`, settings.counters, MAX_COUNTERS);
  settings.counters.slice(0, MAX_COUNTERS).forEach((counter, index) => {
    if (!isCounter(counter))
      violations.add(
        `${field}.counters[${index}]`,
        'must be a counter by its own name, such as sm__inst_executed_pipe_tensor.sum',
      );
  });
}

interface AskedSet {
  field: string;
  name: string;
  shapes: readonly Shape[];
}

/** A case set replaces shapes. Whether the set exists depends on cases.yaml. */
function checkSet({ field, name, shapes }: AskedSet, violations: Violations): void {
  violations.text(field, name, 64);
  if (name !== '' && shapes.length > 0) violations.add(field, 'must be empty where shapes are given');
}

/** The plan's name and the client's gates file; the file's content is checked when it is read. */
export function checkPlan({ plan, gatesYaml }: RunExperimentRequest, violations: Violations): void {
  violations.text('plan', plan, 64);
  const bytes = Buffer.byteLength(gatesYaml);
  if (bytes > MAX_GATES_BYTES) violations.add('gates_yaml', `must have at most ${MAX_GATES_BYTES} bytes, has ${bytes}`);
}
