import { create } from '@bufbuild/protobuf';
import {
  Verdict,
  MetricSchema,
  ProfileResultSchema,
  type LaunchWaves,
  type Metric,
  type ProfileResult,
  type Shape,
} from '@flashcore/shared/contract';
import { arithmeticPeak, findDataSheet, rooflineSeconds, type ProblemCase } from '@flashcore/shared/kernels';
import { adviceFor, bottleneckOf } from './advice.ts';
import { DURATION_COUNTER, OCCUPANCY_LIMITS, evaluateRule, metricRules, missingText, stallRules } from './counters.ts';
import type { ProfiledLaunch } from './ncu-report.ts';

export interface ProfiledKernel {
  arch: string;
  deviceName: string;
  shape: Shape;
  /** Inputs for arithmetic and traffic figures. */
  computed: Pick<ProblemCase, 'dtype' | 'flops' | 'bytes'>;
  /** "fp32" or "fp16"; undefined if not known. */
  accumulate: string | undefined;
  /** Launches of one run of the plan, in order. */
  launches: readonly ProfiledLaunch[];
  /** How well the launch fills the device; undefined if not known. */
  waves?: LaunchWaves | undefined;
  /** Counters requested by their own names. */
  counters?: readonly string[];
  /** Whether the kernel's source contains a word; undefined if the source is not known. */
  sourceHas?: ((word: string) => boolean) | undefined;
}

/**
 * Makes a result from counters. For a plan of several launches, the figures are those of the longest launch and are
 * marked as such; the time is the total. A metric that ncu did not give, or whose counters contradict each other, is
 * absent, and `reason` names it.
 */
export function profileResult({
  arch,
  deviceName,
  shape,
  computed,
  accumulate,
  launches,
  counters = [],
  waves,
  sourceHas,
}: ProfiledKernel): ProfileResult {
  const timeOf = ({ counters }: ProfiledLaunch): number => counters.get(DURATION_COUNTER) ?? 0;
  const longest = launches.reduce((a, b) => (timeOf(b) > timeOf(a) ? b : a));
  const which = launches.length > 1 ? `, ${longest.kernel}, the longest of ${launches.length} launches` : '';
  const read = (rules: ReturnType<typeof metricRules>): Metric[] =>
    rules.flatMap((rule) => {
      const value = evaluateRule(rule, longest.counters);
      return value === undefined
        ? []
        : [
            create(MetricSchema, {
              name: rule.name,
              value,
              unit: rule.unit,
              source: `ncu ${rule.counters.join(', ')}${which}`,
            }),
          ];
    });
  const metrics = read(metricRules(arch));
  const stalls = read(stallRules(arch)).sort((a, b) => b.value - a.value);
  const named = counters.flatMap((name) =>
    longest.counters.has(name)
      ? [create(MetricSchema, { name, value: longest.counters.get(name)!, source: `ncu ${name}${which}` })]
      : [],
  );
  const all = [
    ...withTotalTime(metrics, launches),
    ...named,
    ...roofline(totalNs(launches) / 1e9, {
      deviceName,
      computed,
      tensorCores: metrics.find(({ name }) => name === 'tensor_pipe_percent')?.value !== 0,
    }),
  ];
  const figures = {
    metric: (name: string) => all.find((metric) => metric.name === name)?.value,
    stalls,
    arch,
    accumulate,
    occupancyLimiter: limiterOf(longest),
    waves,
    sourceHas,
  };
  const missing = missingText(metricRules(arch), counters, longest.counters);
  return create(ProfileResultSchema, {
    verdict: Verdict.PASS,
    ...(missing !== '' && { reason: missing }),
    shape,
    metrics: all,
    stalls,
    bottleneck: bottleneckOf(figures),
    advice: adviceFor(figures).map(({ text, evidence }) => ({ text, evidence })),
    arithmeticIntensity: computed.flops / computed.bytes,
  });
}

/** Total time of all launches; NaN if ncu did not give the time of one. */
const totalNs = (launches: readonly ProfiledLaunch[]): number =>
  launches.reduce((sum, { counters }) => sum + (counters.get(DURATION_COUNTER) ?? NaN), 0);

/** Replaces the longest launch's time with the total; removes it if a launch's time is missing. */
function withTotalTime(metrics: readonly Metric[], launches: readonly ProfiledLaunch[]): Metric[] {
  if (launches.length === 1) return [...metrics];
  const value = totalNs(launches) / 1e3;
  const source = `ncu ${DURATION_COUNTER}, sum of ${launches.length} launches`;
  return metrics.flatMap((metric) => {
    if (metric.name !== 'gpu_time_us') return [metric];
    return Number.isNaN(value) ? [] : [{ ...metric, value, source }];
  });
}

/** The kernel's position under the device's roofline; nothing for a device without a data sheet. */
function roofline(
  seconds: number,
  {
    deviceName,
    computed: { flops, bytes, dtype },
    tensorCores,
  }: Pick<ProfiledKernel, 'deviceName' | 'computed'> & { tensorCores: boolean },
): Metric[] {
  const sheet = findDataSheet(deviceName);
  if (!sheet || !(seconds > 0)) return [];
  const { tflops, units } = arithmeticPeak(sheet, { dtype, tensorCores });
  const source = `${flops} FLOPs, ${bytes} B (every tensor once), ncu's time, ${units}, ${sheet.source}`;
  const ridge = (tflops * 1e12) / (sheet.memoryGbPerSecond * 1e9);
  return [
    create(MetricSchema, { name: 'achieved_tflops', value: flops / seconds / 1e12, unit: 'TFLOP/s', source }),
    create(MetricSchema, {
      name: 'roofline_percent',
      value: (100 * rooflineSeconds({ flops, bytes, dtype, tensorCores }, sheet)) / seconds,
      unit: '%',
      source,
    }),
    create(MetricSchema, {
      name: 'ridge_flops_per_byte',
      value: ridge,
      unit: 'FLOP/B',
      source: `${units}, ${sheet.source}`,
    }),
  ];
}

function limiterOf({ counters }: ProfiledLaunch): string | undefined {
  const bounds = OCCUPANCY_LIMITS.flatMap(([name, counter]) =>
    counters.has(counter) ? [{ name, ctas: counters.get(counter)! }] : [],
  );
  return bounds.length === 0
    ? undefined
    : bounds.reduce((least, bound) => (bound.ctas < least.ctas ? bound : least)).name;
}
