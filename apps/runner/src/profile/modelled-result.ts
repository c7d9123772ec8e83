import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  LineProfileSchema,
  MetricSchema,
  ProfileResultSchema,
  Verdict,
  type EntryResources,
  type LaunchWaves,
  type Metric,
  type ProfileResult,
} from '@flashcore/shared/contract';
import { arithmeticPeak, sheetForBuild } from '@flashcore/shared/kernels';
import { entryOf, setEntry } from '@flashcore/shared/text';
import type { LaunchCounts } from '../../worker/messages/profiling.ts';
import { adviceFor } from './advice.ts';
import { countedAdvice } from './counted-advice.ts';
import { evaluateRule, metricRules, missingText } from './counters.ts';
import { ISSUE, SHARED, modelledBottleneck } from './modelled-bottleneck.ts';
import type { ProfiledKernel } from './profile-result.ts';

export interface CountedKernel extends Omit<ProfiledKernel, 'accumulate' | 'launches'> {
  /** "fp32" or "fp16"; empty if not known. */
  accumulate: string;
  /** Counts of one run of the plan, in order. */
  launches: readonly LaunchCounts[];
  /** Compiler that made the PTX. The model of ncu's counters holds for nvcc's code. */
  frontEnd: 'nvcc' | 'clang';
  /** ptxas's report on the entries. */
  entries: readonly EntryResources[];
  /** Returns the source text of a line. */
  textOf: (file: string, line: number) => string;
}

/** clang and nvcc address shared memory differently, and ptxas merges different accesses. */
const NOT_NCUS = "the shared-memory counters of ncu are modelled for nvcc's code, and clang made this";
const NOT_TIMED = 'the emulator counts instructions and memory accesses; time, stalls and utilisation need a GPU';
const SECTOR_BYTES = 32;
const MODELLED = 'modelled';

/** ncu's names for counts that the emulator defines in the same way. */
const NCU_NAMES: Readonly<Record<string, string>> = Object.fromEntries(
  ['load', 'store'].flatMap((kind) => {
    const op = kind === 'load' ? 'ld' : 'st';
    return [
      [`smsp__inst_executed_op_shared_${op}.sum`, `shared_${kind}_requests`],
      [`l1tex__data_pipe_lsu_wavefronts_mem_shared_op_${op}.sum`, `shared_${kind}_wavefronts`],
      [`l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_${op}.sum`, `shared_${kind}_conflicts`],
    ];
  }),
);

/** The emulator's instruction families. Every instruction is in one of them, so their shares add up to 100 %. */
const FAMILIES = [
  'fma',
  'float',
  'integer',
  'conversion',
  'special_function',
  'tensor',
  'memory',
  'control',
  'warp',
  'barrier',
];

/**
 * Makes a result from the emulator's counts. For a plan of several launches, the figures are those of the launch with
 * the most instructions and are marked as such. A GPU counter that the emulator lacks is absent, and its gate answers
 * "not measured"; if it was requested by name, `reason` names it.
 */
export function modelledResult(kernel: CountedKernel): ProfileResult {
  const { arch, shape, computed, accumulate, launches, entries, waves, counters = [] } = kernel;
  const largest = launches.reduce((a, b) => (of(b)('instructions') > of(a)('instructions') ? b : a));
  const which = launches.length > 1 ? `, ${largest.entry}, the largest of ${launches.length} launches` : '';
  const comparable = kernel.frontEnd === 'nvcc';
  const values = new Map(
    comparable ? Object.entries(NCU_NAMES).map(([ncu, own]) => [ncu, of(largest)(own)] as const) : [],
  );
  const metric = (name: string, value: number, unit: string, source: string): Metric =>
    create(MetricSchema, { name, value, unit, source: `${source}${which}` });
  const ruled = metricRules(arch).flatMap((rule) => {
    const value = evaluateRule(rule, values);
    return value === undefined ? [] : [metric(rule.name, value, rule.unit, `${MODELLED} ${rule.counters.join(', ')}`)];
  });
  const named = [...new Set([...counters, ...values.keys()])].flatMap((name) =>
    values.has(name) ? [metric(name, values.get(name)!, '', `${MODELLED} ${name}`)] : [],
  );
  const resources = entries.find(({ entry }) => entry === largest.entry);
  const all = [
    ...ruled,
    ...ownMetrics(largest, metric),
    ...(resources ? residency(resources, waves, metric) : []),
    ...ridge(kernel, of(largest)('tensor') > 0, metric),
    ...named,
  ];
  const figures = {
    metric: (name: string) => all.find((each) => each.name === name)?.value,
    stalls: [],
    arch,
    accumulate,
    occupancyLimiter: resources?.occupancyLimiter,
    waves,
    sourceHas: kernel.sourceHas,
  };
  const bound = bottleneckOf(kernel);
  const boundByShared = bound.bottleneck?.startsWith(SHARED) ?? false;
  const counted = countedAdvice(largest, computed, boundByShared);
  const others = adviceFor(figures);
  // More resident warps do not help a kernel that already fills the issue slots, or shared memory without conflicts.
  const isFull = boundByShared
    ? others.every(({ rule }) => rule !== 'bank conflicts')
    : bound.bottleneck?.startsWith(ISSUE);
  const advice = isFull ? [...counted, ...others] : [...others, ...counted];
  return create(ProfileResultSchema, {
    verdict: Verdict.PASS,
    reason: [NOT_TIMED, ...(comparable ? [] : [NOT_NCUS]), missingText([], counters, values)]
      .filter((part) => part !== '')
      .join('; '),
    modelled: true,
    shape,
    metrics: all,
    ...bound,
    advice: advice.map(({ text, evidence }) => ({ text, evidence })),
    arithmeticIntensity: computed.flops / computed.bytes,
    lines: linesOf(launches, kernel.textOf),
  });
}

function bottleneckOf({ arch, deviceName, computed, launches, frontEnd, waves }: CountedKernel): {
  bottleneck?: string;
} {
  const sheet = sheetForBuild(deviceName, arch);
  const filled = launches.length === 1 && waves ? waves.tailEfficiencyPercent / 100 : 1;
  const bottleneck =
    sheet && modelledBottleneck({ sheet, computed, launches, filled, countsShared: frontEnd === 'nvcc' });
  return bottleneck === undefined ? {} : { bottleneck };
}

type NewMetric = (name: string, value: number, unit: string, source: string) => Metric;

const of =
  ({ counts }: Pick<LaunchCounts, 'counts'>) =>
  (name: string): number =>
    entryOf(counts, name) ?? 0;

function ownMetrics(launch: LaunchCounts, metric: NewMetric): Metric[] {
  const count = of(launch);
  const source = `${MODELLED}, PTX on the emulator`;
  const instructions = Math.max(1, count('instructions'));
  const loads = count('global_load_sectors') + count('async_copy_sectors');
  const requests = count('global_load_requests') + count('async_copy_requests');
  const bytes = SECTOR_BYTES * (loads + count('global_store_sectors'));
  return [
    metric('ptx_instructions', count('instructions'), 'warp instructions', source),
    metric('active_lanes', count('lanes') / instructions, 'lanes of 32', source),
    metric('tensor_instructions', count('tensor'), 'warp instructions', source),
    metric('special_function_instructions', count('special_function'), 'warp instructions', source),
    metric('barrier_instructions', count('barrier'), 'warp instructions', source),
    ...FAMILIES.map((family) => metric(`${family}_percent`, (100 * count(family)) / instructions, '%', source)),
    metric('executed_flops', count('flops'), 'FLOP', source),
    metric('shared_bytes', count('shared_bytes'), 'B', source),
    metric('global_load_bytes', SECTOR_BYTES * loads, 'B', `${source}, sectors of 32 bytes`),
    metric('global_store_bytes', SECTOR_BYTES * count('global_store_sectors'), 'B', `${source}, sectors of 32 bytes`),
    metric('global_load_sectors_per_request', loads / Math.max(1, requests), 'sectors', source),
    metric('executed_flops_per_byte', count('flops') / Math.max(1, bytes), 'FLOP/B', `${source}, sectors before L1`),
  ];
}

function residency(entry: EntryResources, waves: LaunchWaves | undefined, metric: NewMetric): Metric[] {
  const source = "calculated from ptxas's report and the data sheet";
  return [
    ...(entry.ctasPerSm > 0 ? [metric('resident_ctas_per_sm', entry.ctasPerSm, 'CTAs', source)] : []),
    ...(entry.occupancyPercent > 0
      ? [metric('theoretical_occupancy_percent', entry.occupancyPercent, '%', source)]
      : []),
    ...(waves ? [metric('waves', waves.waves, 'waves', source)] : []),
  ];
}

/** The roofline's ridge point: a kernel with fewer FLOPs per byte is bound by memory at best. */
function ridge({ arch, deviceName, computed }: CountedKernel, tensorCores: boolean, metric: NewMetric): Metric[] {
  const sheet = sheetForBuild(deviceName, arch);
  if (!sheet) return [];
  const { tflops } = arithmeticPeak(sheet, { dtype: computed.dtype, tensorCores });
  const source = `${tensorCores ? '' : 'fp32 units, because it executed no tensor-core instruction; '}${sheet.source}`;
  return [metric('ridge_flops_per_byte', (tflops * 1e12) / (sheet.memoryGbPerSecond * 1e9), 'FLOP/B', source)];
}

function linesOf(
  launches: readonly LaunchCounts[],
  textOf: CountedKernel['textOf'],
): MessageInitShape<typeof LineProfileSchema>[] {
  const sums = new Map<string, Record<string, number>>();
  for (const [place, counts] of launches.flatMap(({ lines }) => Object.entries(lines))) {
    const sum = sums.get(place) ?? {};
    for (const [name, count] of Object.entries(counts)) setEntry(sum, name, (entryOf(sum, name) ?? 0) + count);
    sums.set(place, sum);
  }
  return [...sums]
    .map(([place, counts]) => ({ ...splitPlace(place), counts }))
    .sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line)
    .map(({ file, line, counts }) => {
      const count = of({ counts });
      const instructions = count('instructions');
      const whole = (...names: string[]): bigint => BigInt(names.reduce((sum, name) => sum + count(name), 0));
      return {
        file,
        line,
        text: textOf(file, line),
        instructions: BigInt(instructions),
        activeLanes: count('lanes') / Math.max(1, instructions),
        tensorInstructions: whole('tensor'),
        specialInstructions: whole('special_function'),
        barriers: whole('barrier'),
        flops: whole('flops'),
        sharedRequests: whole('shared_load_requests', 'shared_store_requests'),
        sharedWavefronts: whole('shared_load_wavefronts', 'shared_store_wavefronts'),
        bankConflicts: whole('shared_load_conflicts', 'shared_store_conflicts'),
        globalRequests: whole('global_load_requests', 'global_store_requests', 'async_copy_requests'),
        globalSectors: whole('global_load_sectors', 'global_store_sectors', 'async_copy_sectors'),
      };
    });
}

/** Splits a place such as "flashcore_v6.cu:43". */
function splitPlace(place: string): { file: string; line: number } {
  const at = place.lastIndexOf(':');
  return { file: place.slice(0, at), line: Number(place.slice(at + 1)) };
}
