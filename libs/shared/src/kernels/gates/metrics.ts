/** The metrics that a gate can use, and the phase that measures each. */
import type { EntryResources } from '../../generated/flashcore/runner/v1/result_pb.js';
import { didYouMean } from '../../text/nearest-names.ts';
import { entryOf } from '../../text/entry-of.ts';

/** The phase that measures a metric. "group" marks a gate that combines others. */
export type GatePhase = 'build' | 'verify' | 'benchmark' | 'profile' | 'history' | 'manifest' | 'group';

export const TIMING_MODES = ['cold', 'hot'] as const;
const LATENCY_STATISTICS = [
  'p50',
  'p90',
  'p95',
  'p99',
  'p10',
  'p25',
  'p75',
  'mean',
  'stddev',
  'min',
  'max',
  'p50_low',
  'p50_high',
] as const;
const RATIO_STATISTICS = ['ratio', 'low', 'high'] as const;

/** A metric: its name and, if the name alone is ambiguous, its mode, shape and statistic. */
export interface Metric {
  readonly name: string;
  readonly mode?: 'cold' | 'hot' | undefined;
  readonly statistic?: string | undefined;
  /** A case set's name or a shape such as 2x8x512x64. For a set, its worst shape decides. */
  readonly shape?: string | undefined;
  /** Backend of SDPA, for example "cudnn"; undefined: the fastest. */
  readonly backend?: string | undefined;
}

type Qualifier = Exclude<keyof Metric, 'name'>;

interface MetricKind {
  readonly phase: GatePhase;
  readonly unit: string;
  readonly about: string;
  /** The qualifiers that the metric accepts. */
  readonly takes: readonly Qualifier[];
  /** The statistics that a gate may use; the first one is the default. */
  readonly statistics?: readonly string[];
  /** Counted on the emulator, never on a GPU. */
  readonly emulatorOnly?: boolean;
}

const build = (unit: string, about: string): MetricKind => ({ phase: 'build', unit, about, takes: ['shape'] });
const verify = (unit: string, about: string): MetricKind => ({ phase: 'verify', unit, about, takes: ['shape'] });
const rate = (unit: string, about: string): MetricKind => ({
  phase: 'benchmark',
  unit,
  about,
  takes: ['mode', 'shape'],
});
const profile = (unit: string, about: string): MetricKind => ({ phase: 'profile', unit, about, takes: [] });
/** A count of the emulator's PTX engine, for which a GPU has no counter. */
const counted = (unit: string, about: string): MetricKind => ({ ...profile(unit, about), emulatorOnly: true });

/** Every metric by name. Profiler counters use their own names, which contain "__". */
export const METRICS: Readonly<Record<string, MetricKind>> = {
  registers_per_thread: build('registers', 'ptxas, the highest of the entries that the benchmarked shapes launch'),
  smem_bytes_per_cta: build('B', 'static (ptxas) + dynamic (manifest), the highest'),
  static_smem_bytes: build('B', 'ptxas, the highest'),
  dynamic_smem_bytes: build('B', 'the manifest, the highest'),
  spill_bytes: build('B', 'ptxas, spill stores + spill loads, with those of called functions'),
  local_bytes: build('B', 'ptxas, stack of the deepest call (spills, arrays indexed at run time)'),
  constant_bytes: build('B', 'ptxas'),
  barriers: build('barriers', 'ptxas, named barriers'),
  theoretical_ctas_per_sm: build('CTAs', "calculated for the built arch's data sheet, the lowest"),
  theoretical_occupancy_percent: build('%', 'warps of those CTAs over the warps an SM can hold, the lowest'),
  waves: build('waves', 'CTAs of the launch over those that the device holds at once, the highest'),
  tail_efficiency_percent: build('%', "share of the multiprocessors' time that has work, the lowest"),
  compile_warnings: { phase: 'build', unit: 'warnings', about: 'of all compilers', takes: [] },

  parity_cases_passed: verify('share', 'cases of the parity set within the parity profile, no NaN or Inf'),
  cases_passed: verify('share', 'of all cases that were run, within the tolerance of the request'),
  fp16_rule_cases_passed: verify('share', 'cases with max|out - ref| <= 2 max|fp16 - ref| + atol (FlashAttention)'),
  deterministic_cases: verify('share', 'cases whose two runs gave the same bits'),
  max_abs_error: verify('1', 'highest over the cases'),
  mean_abs_error: verify('1', 'highest over the cases'),
  rms_error: verify('1', 'highest over the cases'),
  max_rel_error: verify('1', 'highest over the cases'),
  p999_abs_error: verify('1', 'highest over the cases'),
  mismatches: verify('elements', 'outside the tolerance, all cases'),
  nan_inf_elements: verify('elements', 'NaN or Inf, all cases'),
  unwritten_elements: verify('elements', 'never written, all cases'),
  sdpa_max_abs_difference: verify('1', "largest |out - SDPA's out|, every backend"),
  sdpa_mean_abs_difference: verify('1', "mean |out - SDPA's out|, highest of cases and backends"),

  latency_us: {
    phase: 'benchmark',
    unit: 'us',
    about: 'latency of a launch',
    takes: ['mode', 'statistic', 'shape'],
    statistics: LATENCY_STATISTICS,
  },
  tflops: rate('TFLOP/s', 'FLOPs over the median'),
  gb_per_second: rate('GB/s', 'Q, K, V and O once each over the median'),
  roofline_percent: rate(
    '%',
    'least time by the data sheet over the median; for a kernel without tensor cores by the fp32 peak',
  ),
  sm_clock_mhz: rate('MHz', 'median over the samples'),
  dropped_percent: rate('%', 'samples dropped because the device slowed down'),
  samples: rate('samples', 'kept'),
  legacy_loop_us: rate('us', 'mean of launches in a plain loop; no latency'),
  speedup_vs_sdpa: {
    phase: 'benchmark',
    unit: 'x',
    about: "SDPA's p50 over this kernel's, same round",
    takes: ['mode', 'statistic', 'shape', 'backend'],
    statistics: RATIO_STATISTICS,
  },
  shapes_10_percent_faster_than_sdpa: {
    phase: 'benchmark',
    unit: 'shapes',
    about: "shapes where the lower end of that speedup's interval is >= 1.10",
    takes: ['mode'],
  },

  speedup_vs_champion: {
    phase: 'history',
    unit: 'x',
    about: 'interleaved comparison in the same job, the smaller of time and cycles',
    takes: ['statistic'],
    statistics: RATIO_STATISTICS,
  },

  documentation_missing: { phase: 'manifest', unit: 'parts', about: 'of title, lesson and NOTES.md', takes: [] },

  gpu_time_us: profile('us', "ncu's time of all launches"),
  tensor_pipe_percent: profile('%', 'tensor pipe active, of peak'),
  dram_throughput_percent: profile('%', 'of peak'),
  dram_bytes: profile('B', 'read and written'),
  l2_hit_percent: profile('%', 'of sectors'),
  smem_bank_conflict_percent: profile('%', 'bank conflicts over shared-memory wavefronts, loads and stores'),
  smem_wavefronts_per_request: profile('wavefronts', 'ldmatrix alone takes several without any conflict'),
  achieved_occupancy_percent: profile('%', 'warps active, of those that an SM can hold'),
  resident_ctas_per_sm: profile('CTAs', "lowest of ncu's launch__occupancy_limit_*"),
  sm_busy_percent: profile('%', "the busiest of issue slots and pipes, of that one's peak"),
  profiled_registers_per_thread: profile('registers', 'as launched'),
  profiled_static_smem_bytes: profile('B', 'as launched'),
  profiled_dynamic_smem_bytes: profile('B', 'as launched'),
  local_load_instructions: profile('instructions', 'spills at run time'),
  local_store_instructions: profile('instructions', 'spills at run time'),
  achieved_tflops: profile('TFLOP/s', "by ncu's time"),
  profiled_roofline_percent: profile('%', "by ncu's time"),
  ridge_flops_per_byte: profile('FLOP/B', "of the device's data sheet: below it memory bounds a kernel"),

  ptx_instructions: counted('warp instructions', 'of PTX'),
  active_lanes: counted('lanes of 32', 'an instruction'),
  tensor_instructions: counted('warp instructions', 'mma and wgmma'),
  special_function_instructions: counted('warp instructions', 'exp2, rcp and the like'),
  barrier_instructions: counted('warp instructions', 'barriers of a CTA'),
  fma_percent: counted('%', 'of all instructions'),
  float_percent: counted('%', 'of all instructions'),
  integer_percent: counted('%', 'of all instructions'),
  conversion_percent: counted('%', 'of all instructions: from one number format to another'),
  special_function_percent: counted('%', 'of all instructions: exp2, rcp and the like'),
  tensor_percent: counted('%', 'of all instructions: mma and wgmma'),
  memory_percent: counted('%', 'of all instructions'),
  control_percent: counted('%', 'of all instructions'),
  warp_percent: counted('%', 'of all instructions'),
  barrier_percent: counted('%', 'of all instructions: barriers of a CTA'),
  executed_flops: counted('FLOP', 'as executed'),
  executed_flops_per_byte: counted('FLOP/B', 'over the bytes of global memory'),
  shared_bytes: counted('B', 'read and written'),
  global_load_bytes: counted('B', 'in sectors of 32 bytes'),
  global_store_bytes: counted('B', 'in sectors of 32 bytes'),
  global_load_sectors_per_request: counted('sectors', 'of 32 bytes'),
};

/** Metrics of the profile that share their name with a build or benchmark metric: a gate uses the longer name. */
const PROFILED_AS: Readonly<Record<string, string>> = {
  profiled_registers_per_thread: 'registers_per_thread',
  profiled_static_smem_bytes: 'static_smem_bytes',
  profiled_dynamic_smem_bytes: 'dynamic_smem_bytes',
  profiled_roofline_percent: 'roofline_percent',
};

/** The name of a metric in ProfileResult. */
export const profiledName = (name: string): string => entryOf(PROFILED_AS, name) ?? name;

const COUNTER = /^[a-z][a-z0-9]*(__[a-z0-9_]+)+(\.[a-z0-9_]+)*$/;
const STALL = /^stall_[a-z_]{1,40}$/;

/** Whether a name is a profiler counter's own, for example "sm__inst_executed_pipe_tensor.sum". */
export const isCounter = (name: string): boolean => name.length <= 160 && COUNTER.test(name);
export const isStall = (name: string): boolean => STALL.test(name);

/** Whether only the emulator measures the metric. */
export const isEmulators = (name: string): boolean => entryOf(METRICS, name)?.emulatorOnly === true;

/** The phase that measures a metric; undefined if none does. */
export function phaseOfMetric(name: string): GatePhase | undefined {
  if (isCounter(name) || isStall(name)) return 'profile';
  return entryOf(METRICS, name)?.phase;
}

/** The fault of a metric; undefined if it is valid. */
export function metricFault(metric: Metric): { key: Qualifier | 'metric'; message: string } | undefined {
  if (phaseOfMetric(metric.name) === undefined) return { key: 'metric', message: unknownMetric(metric.name) };
  const kind = entryOf(METRICS, metric.name);
  const takes = kind?.takes ?? [];
  const statistics = kind?.statistics;
  for (const key of ['mode', 'statistic', 'shape', 'backend'] as const) {
    if (metric[key] !== undefined && !takes.includes(key))
      return { key, message: `${metric.name} takes ${takes.join(', ') || 'no mode, statistic, shape or backend'}` };
  }
  if (metric.statistic !== undefined && statistics && !statistics.includes(metric.statistic))
    return { key: 'statistic', message: `must be one of ${statistics.join(', ')}, got "${metric.statistic}"` };
  return undefined;
}

function unknownMetric(name: string): string {
  return `"${name}" is not a metric${didYouMean(name, Object.keys(METRICS))}: must be one that kernels/README.md lists, stall_<reason>, or a counter of Nsight Compute by its own name`;
}

/** A metric's conditions, for example "cold p90, 2x8x512x64"; empty if the name is enough. */
export function conditionText({ name, mode, statistic, shape, backend }: Metric): string {
  const kind = entryOf(METRICS, name);
  if (kind?.phase !== 'benchmark' && kind?.phase !== 'history') return shape ?? '';
  const figure = [
    kind.takes.includes('mode') ? (mode ?? 'cold') : '',
    kind.statistics ? (statistic ?? kind.statistics[0]!) : '',
  ].filter((part) => part !== '');
  return [
    figure.join(' '),
    kind.takes.includes('shape') ? (shape ?? 'canonical') : '',
    backend ? `sdpa/${backend}` : '',
  ]
    .filter((part) => part !== '')
    .join(', ');
}

interface EntryFigure {
  readonly counts: 'highest' | 'lowest';
  readonly of: (entry: EntryResources) => number;
}

const highest = (of: EntryFigure['of']): EntryFigure => ({ counts: 'highest', of });
const lowest = (of: EntryFigure['of']): EntryFigure => ({ counts: 'lowest', of });

/** The resources of compiled entries by the names of their metrics, and which of a kernel's entries counts. */
export const ENTRY_FIGURES = {
  registers_per_thread: highest(({ registersPerThread }) => registersPerThread),
  smem_bytes_per_cta: highest(({ staticSmemBytes, dynamicSmemBytes }) => staticSmemBytes + dynamicSmemBytes),
  static_smem_bytes: highest(({ staticSmemBytes }) => staticSmemBytes),
  dynamic_smem_bytes: highest(({ dynamicSmemBytes }) => dynamicSmemBytes),
  spill_bytes: highest(({ spillStoreBytes, spillLoadBytes }) => spillStoreBytes + spillLoadBytes),
  local_bytes: highest(({ stackBytes }) => stackBytes),
  constant_bytes: highest(({ constantBytes }) => constantBytes),
  barriers: highest(({ barriers }) => barriers),
  threads_per_cta: highest(({ threadsPerCta }) => threadsPerCta),
  theoretical_ctas_per_sm: lowest(({ ctasPerSm }) => ctasPerSm),
  theoretical_occupancy_percent: lowest(({ occupancyPercent }) => occupancyPercent),
} satisfies Readonly<Record<string, EntryFigure>>;

export type EntryFigureName = keyof typeof ENTRY_FIGURES;

/** The figure of a kernel, such as the most registers or the fewest CTAs of its entries; undefined without entries. */
export function figureOfEntries(name: EntryFigureName, entries: readonly EntryResources[]): number | undefined {
  if (entries.length === 0) return undefined;
  const { counts, of } = ENTRY_FIGURES[name];
  const values = entries.map(of);
  return counts === 'highest' ? Math.max(...values) : Math.min(...values);
}
