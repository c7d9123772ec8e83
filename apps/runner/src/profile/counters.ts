/** The counters to read, by architecture: Nsight Compute's names, and flashcore's metrics from them. */

/**
 * Values of a launch by Nsight Compute's names, in base units (bytes, nanoseconds, percent); a counter that was not
 * read is absent.
 */
export type CounterValues = ReadonlyMap<string, number>;

export interface MetricRule {
  /** flashcore's name, as used in gates.yaml. */
  name: string;
  unit: string;
  /** The Nsight Compute counters that the metric needs; if one is absent, so is the metric. */
  counters: readonly string[];
  value: (of: (counter: string) => number) => number;
  /**
   * Upper bound of a valid value. ncu reads hits and accesses in different passes, which may disagree for a short
   * launch.
   */
  most?: number;
}

/** A resource that limits CTAs per multiprocessor, with the counter that gives the limit. */
export const OCCUPANCY_LIMITS = [
  ['registers', 'launch__occupancy_limit_registers'],
  ['shared memory', 'launch__occupancy_limit_shared_mem'],
  ['warps', 'launch__occupancy_limit_warps'],
  ['CTA slots', 'launch__occupancy_limit_blocks'],
] as const;

export const DURATION_COUNTER = 'gpu__time_duration.sum';

const STALLS = [
  'barrier',
  'branch_resolving',
  'dispatch_stall',
  'drain',
  'imc_miss',
  'lg_throttle',
  'long_scoreboard',
  'math_pipe_throttle',
  'membar',
  'mio_throttle',
  'misc',
  'no_instruction',
  'not_selected',
  'selected',
  'short_scoreboard',
  'sleeping',
  'tex_throttle',
  'wait',
];

const bankConflicts = (op: string): string => `l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_${op}.sum`;
const wavefronts = (op: string): string => `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_${op}.sum`;
const requests = (op: string): string => `smsp__inst_executed_op_shared_${op}.sum`;
const both = (name: (op: string) => string): string[] => ['ld', 'st'].map(name);
const sumOf = (of: (counter: string) => number, names: readonly string[]): number =>
  names.reduce((sum, name) => sum + of(name), 0);

/** A metric that is one counter, scaled. */
const plain = (name: string, unit: string, counter: string, scale = 1): MetricRule => ({
  name,
  unit,
  counters: [counter],
  value: (of) => of(counter) * scale,
});

/** Treats "sm_90a" as sm_90. */
const family = (arch: string): string => arch.replace(/[af]$/, '');

/**
 * The tensor pipe's counter. Its name ends in _v2 on Ada (sm_89) only; on sm_90 it covers wgmma. From Nsight Compute's
 * metric lists; ncu 2025.3 on an H200 accepted all names of sm_90.
 */
function tensorCounter(arch: string): string {
  return `sm__pipe_tensor_cycles_active${family(arch) === 'sm_89' ? '_v2' : ''}.avg.pct_of_peak_sustained_active`;
}

/** The metrics of an architecture. */
export function metricRules(arch: string): MetricRule[] {
  return [
    plain('gpu_time_us', 'us', DURATION_COUNTER, 1e-3),
    plain('tensor_pipe_percent', '%', tensorCounter(arch)),
    plain('dram_throughput_percent', '%', 'dram__throughput.avg.pct_of_peak_sustained_elapsed'),
    plain('dram_bytes', 'B', 'dram__bytes.sum'),
    { ...plain('l2_hit_percent', '%', 'lts__t_sector_hit_rate.pct'), most: 100 },
    {
      name: 'smem_bank_conflict_percent',
      unit: '%',
      counters: [...both(bankConflicts), ...both(wavefronts)],
      // A kernel that does not use shared memory has no conflicts.
      value: (of) => (100 * sumOf(of, both(bankConflicts))) / Math.max(1, sumOf(of, both(wavefronts))),
    },
    {
      name: 'smem_wavefronts_per_request',
      unit: 'wavefronts',
      counters: [...both(wavefronts), ...both(requests)],
      value: (of) => sumOf(of, both(wavefronts)) / Math.max(1, sumOf(of, both(requests))),
    },
    plain('achieved_occupancy_percent', '%', 'sm__warps_active.avg.pct_of_peak_sustained_active'),
    {
      name: 'resident_ctas_per_sm',
      unit: 'CTAs',
      counters: OCCUPANCY_LIMITS.map(([, counter]) => counter),
      value: (of) => Math.min(...OCCUPANCY_LIMITS.map(([, counter]) => of(counter))),
    },
    plain('sm_busy_percent', '%', 'sm__instruction_throughput.avg.pct_of_peak_sustained_active'),
    plain('registers_per_thread', 'registers', 'launch__registers_per_thread'),
    plain('static_smem_bytes', 'B', 'launch__shared_mem_per_block_static'),
    plain('dynamic_smem_bytes', 'B', 'launch__shared_mem_per_block_dynamic'),
    plain('local_load_instructions', 'instructions', 'smsp__inst_executed_op_local_ld.sum'),
    plain('local_store_instructions', 'instructions', 'smsp__inst_executed_op_local_st.sum'),
  ];
}

/** Stall reasons of warps, in warp cycles per issued instruction. */
export function stallRules(arch: string): MetricRule[] {
  const reasons = family(arch) === 'sm_90' ? [...STALLS, 'gmma'] : STALLS;
  return reasons.map((reason) =>
    plain(reason, 'cycles', `smsp__average_warps_issue_stalled_${reason}_per_issue_active.ratio`),
  );
}

const ROOFLINE = [
  'gpu_time_us',
  'tensor_pipe_percent',
  'dram_throughput_percent',
  'dram_bytes',
  'l2_hit_percent',
  'sm_busy_percent',
];

/**
 * The counters to request from ncu, and no more, because each further one may cost a pass. `full` adds ncu's full set.
 */
export function countersOf(metricSet: string, arch: string): string[] {
  const metrics = metricRules(arch).filter(({ name }) => metricSet !== 'roofline' || ROOFLINE.includes(name));
  const stalls = metricSet === 'roofline' ? [] : stallRules(arch);
  const wanted =
    metricSet === 'stalls'
      ? [...metrics.filter(({ name }) => name === 'gpu_time_us' || name === 'sm_busy_percent'), ...stalls]
      : [...metrics, ...stalls];
  return [...new Set(wanted.flatMap(({ counters }) => counters))];
}

/** A rule's value from a launch's counters; undefined if a needed counter was not read, or counters contradict. */
export function evaluateRule(rule: MetricRule, values: CounterValues): number | undefined {
  if (!rule.counters.every((counter) => values.has(counter))) return undefined;
  const value = rule.value((counter) => values.get(counter)!);
  return rule.most !== undefined && value > rule.most ? undefined : value;
}

/** Why requested metrics and counters are missing from a profile; empty if none is missing. */
export function missingText(rules: readonly MetricRule[], counters: readonly string[], values: CounterValues): string {
  const impossible = rules.filter(
    (rule) => rule.counters.every((counter) => values.has(counter)) && evaluateRule(rule, values) === undefined,
  );
  const unread = counters.filter((counter) => !values.has(counter));
  return [
    ...impossible.map(
      ({ name, unit, most, counters: [first] }) =>
        `${name} left out: ${first} is ${values.get(first!)} ${unit}, above ${most} ${unit}, because its passes do not fit together`,
    ),
    ...(unread.length > 0 ? [`not read: ${unread.join(', ')}`] : []),
  ].join('; ');
}
