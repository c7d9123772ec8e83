/**
 * Says what bounds a kernel and what to try next, by rules over measured figures; each rule gives the figures that
 * triggered it.
 */
import type { LaunchWaves } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';

export interface Figures {
  /** flashcore's metric by name; undefined when it was not read. */
  metric: (name: string) => number | undefined;
  /** Stall reasons, largest first, in warp cycles per issued instruction. */
  stalls: readonly { name: string; value: number }[];
  /** The resource that limits CTAs per multiprocessor, for example "registers". */
  occupancyLimiter: string | undefined;
  arch: string;
  /** Accumulator type of the tensor cores: "fp32" or "fp16"; undefined if not known. */
  accumulate: string | undefined;
  /** Whether the kernel's source contains a word; undefined if the source is not known. */
  sourceHas?: ((word: string) => boolean) | undefined;
  /** How well the launch's CTAs fill the device; undefined if not known. */
  waves?: Pick<LaunchWaves, 'tailEfficiencyPercent' | 'text'> | undefined;
}

export interface AdviceText {
  text: string;
  evidence: string;
}

const MAX_REGISTERS = 64;
const MIN_CTAS = 4;
const MAX_CONFLICT_PERCENT = 5;
/** The limit of the gate `tail`. */
const MIN_TAIL_PERCENT = 80;
const LOW_TENSOR_PERCENT = 40;
const HIGH_PERCENT = 60;
const MEMORY_BOUND_PERCENT = 80;
/** A stall reason is mentioned if it makes up this share of a warp's time between two of its instructions. */
const STALL_SHARE = 0.2;
/** These are not stalls: the warp issued, or another warp was selected before it. */
const NO_STALL = ['selected', 'not_selected'];

const STALL_ADVICE: Record<string, string> = {
  barrier:
    'Warps wait for each other at __syncthreads: fewer barriers a tile, named barriers between producer and consumer, or more CTAs/SM to fill the gap',
  long_scoreboard:
    'Warps wait for device memory or L2: load the next tile with cp.async (or TMA) while this one is computed, two stages or more',
  short_scoreboard:
    'Warps wait for shared memory or for exp2 (MUFU): move the softmax between the matrix products of another tile, and load fragments one step ahead',
  mio_throttle:
    'The shared-memory queue is full: 16-byte accesses, ldmatrix instead of scalar loads, or keep the operand in registers',
  lg_throttle: 'The load queue is full: fewer and wider global accesses (16 bytes a thread)',
  math_pipe_throttle:
    'The arithmetic pipe is busy, which is the good kind of stall: what is left is to do less arithmetic around the matrix products',
  wait: 'Warps wait a fixed latency between dependent instructions: interleave independent accumulators',
  no_instruction: 'The instruction cache misses: unroll less',
  imc_miss: 'Constants miss their cache: pass fewer, or copy them to registers once',
  gmma: 'Warpgroups wait for wgmma: keep two products in flight, and let one warpgroup do its softmax while the other multiplies',
  membar: 'Warps wait at a memory fence: narrow its scope',
};

/** The kernel's bottleneck in a few words, with the figures. */
export function bottleneckOf({ metric, stalls }: Figures): string {
  const tensor = metric('tensor_pipe_percent');
  const dram = metric('dram_throughput_percent');
  const busy = metric('sm_busy_percent');
  if (tensor === undefined || dram === undefined || busy === undefined) return '';
  if (tensor >= HIGH_PERCENT && tensor >= dram) return `tensor cores: active ${percent(tensor)} of the time`;
  if (dram >= HIGH_PERCENT) return `device memory: ${percent(dram)} of its bandwidth`;
  if (busy >= HIGH_PERCENT)
    return `instructions: the busiest pipe at ${percent(busy)}, tensor cores ${percent(tensor)}`;
  const [first] = stalls.filter(({ name }) => !NO_STALL.includes(name));
  return `latency: no unit is busy (tensor cores ${percent(tensor)}, device memory ${percent(dram)}, busiest pipe ${percent(busy)})${first ? `; warps stall most on ${first.name}` : ''}`;
}

/** A rule that applies, by its name. */
export interface NamedAdvice extends AdviceText {
  rule: string;
}

const RULES: readonly [string, (figures: Figures) => AdviceText | undefined][] = [
  ['spills', spills],
  ['registers or occupancy', registersOrOccupancy],
  ['bank conflicts', bankConflicts],
  ['memory-bound', memoryBound],
  ['latency-bound', latencyBound],
  ['waves', wavesOf],
];

export function adviceFor(figures: Figures): NamedAdvice[] {
  const rules = [...RULES, ...stallRulesOf(figures), ['accumulation', accumulation] as const];
  return rules.flatMap(([rule, apply]) => {
    const advice = apply(figures);
    return advice ? [{ rule, ...advice }] : [];
  });
}

function spills({ metric }: Figures): AdviceText | undefined {
  const [loads, stores] = [metric('local_load_instructions') ?? 0, metric('local_store_instructions') ?? 0];
  if (loads + stores === 0) return undefined;
  return {
    text: 'Local memory is used at run time: find the spill (-Xptxas -v) or the array that is indexed by a variable, and unroll or shrink it',
    evidence: `${loads} local loads and ${stores} local stores executed`,
  };
}

function registersOrOccupancy({ metric, occupancyLimiter, sourceHas = () => false }: Figures): AdviceText | undefined {
  const [registers, ctas] = [metric('registers_per_thread'), metric('resident_ctas_per_sm')];
  const [many, few] = [registers !== undefined && registers > MAX_REGISTERS, ctas !== undefined && ctas < MIN_CTAS];
  if (!many && !few) return undefined;
  const evidence = [
    ...(registers === undefined ? [] : [`${registers} registers a thread (bound ${MAX_REGISTERS})`]),
    ...(ctas === undefined
      ? []
      : [
          `${ctas} CTA${ctas === 1 ? '' : 's'}/SM (wanted ${MIN_CTAS})${occupancyLimiter ? `, bound by ${occupancyLimiter}` : ''}`,
        ]),
  ].join(', ');
  // A CTA that fills a multiprocessor's warps leaves no room for another, so nothing can be gained.
  if (!many && (occupancyLimiter === 'warps' || occupancyLimiter === 'CTA slots')) return undefined;
  if (few && occupancyLimiter === 'shared memory')
    return {
      text: 'Shared memory bounds the CTAs: half instead of float for what is staged, fewer stages, smaller tiles, or Q kept in registers',
      evidence,
    };
  const steps = [
    'narrow the live ranges of fragments',
    ...(sourceHas('__restrict__') ? [] : ['mark pointers __restrict__']),
    'avoid large local arrays',
    ...(sourceHas('__launch_bounds__') ? [] : ['give __launch_bounds__']),
  ];
  const text = `${steps.slice(0, -1).join(', ')}${steps.length > 2 ? ',' : ''} and ${steps.at(-1)!}`;
  return { text: `${text.charAt(0).toUpperCase()}${text.slice(1)}`, evidence };
}

function bankConflicts({ metric }: Figures): AdviceText | undefined {
  // Wavefronts per request alone prove nothing: ldmatrix takes several without any conflict.
  const [share, wavefronts] = [metric('smem_bank_conflict_percent'), metric('smem_wavefronts_per_request')];
  if (share === undefined || share < MAX_CONFLICT_PERCENT) return undefined;
  const evidence = [
    `bank conflicts are ${percent(share)} of the shared-memory wavefronts`,
    ...(wavefronts === undefined ? [] : [`${wavefronts.toFixed(1)} wavefronts per request`]),
  ].join(', ');
  return { text: 'Swizzle the rows of shared-memory tiles by XOR, or pad them (72 instead of 64 halves)', evidence };
}

/** A last wave that leaves multiprocessors idle. */
function wavesOf({ waves }: Figures): AdviceText | undefined {
  if (!waves || waves.tailEfficiencyPercent >= MIN_TAIL_PERCENT) return undefined;
  return {
    text: 'Multiprocessors wait for the last CTAs: other tile sizes, the keys split over CTAs, or a persistent grid of as many CTAs as fit at once',
    evidence: waves.text,
  };
}

function memoryBound({ metric }: Figures): AdviceText | undefined {
  const [tensor, dram, hits] = [
    metric('tensor_pipe_percent'),
    metric('dram_throughput_percent'),
    metric('l2_hit_percent'),
  ];
  if (tensor === undefined || dram === undefined || tensor >= LOW_TENSOR_PERCENT || dram <= MEMORY_BOUND_PERCENT)
    return undefined;
  return {
    text: 'Bound by device memory: cp.async with two stages, and an order of CTAs in which those of one head run together, so that K and V stay in L2',
    evidence: `device memory ${percent(dram)}, tensor cores ${percent(tensor)}${hits === undefined ? '' : `, L2 hit rate ${percent(hits)}`}`,
  };
}

function latencyBound({ metric }: Figures): AdviceText | undefined {
  const [tensor, dram, occupancy, busy] = [
    metric('tensor_pipe_percent'),
    metric('dram_throughput_percent'),
    metric('achieved_occupancy_percent'),
    metric('sm_busy_percent'),
  ];
  if (tensor === undefined || dram === undefined || tensor >= LOW_TENSOR_PERCENT || dram >= HIGH_PERCENT)
    return undefined;
  const evidence = `tensor cores ${percent(tensor)}, device memory ${percent(dram)}${occupancy === undefined ? '' : `, achieved occupancy ${percent(occupancy)}`}${busy === undefined ? '' : `, busiest pipe ${percent(busy)}`}`;
  if (busy !== undefined && busy >= HIGH_PERCENT)
    return {
      text: 'The instructions around the matrix products fill a pipe or the issue slots: give them to tensor cores (WMMA or mma.sync for both products), and vectorise loads',
      evidence,
    };
  return {
    text: 'Bound by latency: bigger tiles for more work between barriers, more warps, fewer barriers; for a small grid split the keys over CTAs',
    evidence,
  };
}

/** The two largest stalls that each take at least a fifth of the time. */
function stallRulesOf({ stalls }: Figures): [string, () => AdviceText | undefined][] {
  const total = stalls.reduce((sum, { value }) => sum + value, 0);
  const large = stalls
    .filter(({ name, value }) => !NO_STALL.includes(name) && value >= STALL_SHARE * total)
    .slice(0, 2);
  return large.map(({ name, value }) => {
    const text = entryOf(STALL_ADVICE, name);
    const evidence = `stall ${name}: ${value.toFixed(2)} of ${total.toFixed(2)} warp cycles an issued instruction (${percent((100 * value) / total)})`;
    return [`stall ${name}`, () => (text === undefined ? undefined : { text, evidence })];
  });
}

/**
 * GeForce Ada runs fp32 accumulation at half rate. The L4 does not: its data sheet gives 121 TFLOP/s dense for fp32
 * accumulation, so half instead of float would gain nothing there.
 */
function accumulation({ metric, arch, accumulate }: Figures): AdviceText | undefined {
  const tensor = metric('tensor_pipe_percent');
  if (arch !== 'sm_89' || accumulate === undefined || tensor === undefined || tensor < LOW_TENSOR_PERCENT)
    return undefined;
  return {
    text: `This build accumulates in ${accumulate}: GeForce parts of this architecture run fp32 accumulation at half of the fp16 rate`,
    evidence: `${arch}, tensor cores ${percent(tensor)}`,
  };
}

const percent = (value: number): string => `${value.toFixed(1)} %`;
