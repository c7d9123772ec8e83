/** The unit of a GPU that a kernel needs the longest, by the emulator's counts, and the line that needs it most. */
import { arithmeticPeak, type DataSheet, type ProblemCase } from '@flashcore/shared/kernels';
import { entryOf, formatCount, formatNumber } from '@flashcore/shared/text';
import type { LaunchCounts } from '../../worker/messages/profiling.ts';
import { fileOf, lineOf, listed } from './costly-lines.ts';

/** Rates of a multiprocessor, per cycle, from the CUDA programming guide's table of throughput (sm_80 to sm_90). */
const ISSUED_PER_CYCLE = 4;
const WAVEFRONTS_PER_CYCLE = 1;
const SPECIAL_PER_CYCLE = 0.5;
// L1 delivers 128 bytes in a cycle.
const SECTORS_PER_CYCLE = 4;
const fp32FlopsPerCycle = (arch: string): number => (arch === 'sm_80' ? 128 : 256);

/** Advice names a line that has at least this share of the work. */
const SHARE_NAMED = 0.1;
/** Two units take about the same time if the ratio of their times is below this. */
const CLEAR_LEAD = 1.1;

export interface CountedWork {
  sheet: DataSheet;
  computed: Pick<ProblemCase, 'dtype' | 'flops' | 'bytes'>;
  launches: readonly LaunchCounts[];
  /** Share of the multiprocessors' time in which they have a CTA, 0 to 1. */
  filled: number;
  /** False if the wavefronts are not those of a GPU's code. */
  countsShared: boolean;
}

interface Unit {
  name: string;
  /** Least time for the kernel's demand. */
  seconds: number;
  /** The demand as a subject and a verb, for example "its 300 wavefronts take". */
  demand: string;
  /** The demand as an object, for example "its wavefronts". */
  short: string;
  /** Counters of a line that make up the demand. */
  counters: readonly string[];
  /** The counted things. */
  counted: string;
}

/**
 * Text such as "shared memory: its 540,672 wavefronts take 2.1 times as long as issuing the instructions; line 34 of
 * k.cu makes 97 % of the wavefronts". Undefined if no unit has anything to do, or if the model does not hold for the
 * first.
 */
export function modelledBottleneck(work: CountedWork): string | undefined {
  const [first, next] = unitsOf(work).toSorted((a, b) => b.seconds - a.seconds);
  if (first === undefined || next === undefined || !(first.seconds > 0)) return undefined;
  if (!work.countsShared && [first, next].some(({ name }) => name === SHARED)) return undefined;
  const lead = first.seconds / next.seconds;
  const compared =
    lead < CLEAR_LEAD ? `about as long as ${next.short}` : `${formatNumber(lead, 2)} times as long as ${next.short}`;
  return `${first.name}: ${first.demand} ${compared}${lineText(first, work.launches)}`;
}

/** A kernel that is bound by the rate at which its instructions are issued. */
export const ISSUE = 'instruction issue';
/** A kernel that is bound by the wavefronts of its shared-memory accesses. */
export const SHARED = 'shared memory';
const SECTORS = ['global_load_sectors', 'global_store_sectors', 'async_copy_sectors'];

function unitsOf({ sheet, computed, launches, filled }: CountedWork): Unit[] {
  const sum = (...names: string[]): number =>
    launches.reduce((all, { counts }) => all + names.reduce((some, name) => some + (entryOf(counts, name) ?? 0), 0), 0);
  const cyclesPerSecond = (sheet.fp32Tflops * 1e12 * filled) / fp32FlopsPerCycle(sheet.arch);
  const wavefronts = ['shared_load_wavefronts', 'shared_store_wavefronts'];
  const peak = arithmeticPeak(sheet, { dtype: computed.dtype, tensorCores: true });
  return [
    {
      name: ISSUE,
      seconds: sum('instructions') / ISSUED_PER_CYCLE / cyclesPerSecond,
      demand: `its ${formatCount(sum('instructions'))} warp instructions of PTX take`,
      short: 'issuing the instructions',
      counters: ['instructions'],
      counted: 'the instructions',
    },
    {
      name: SHARED,
      seconds: sum(...wavefronts) / WAVEFRONTS_PER_CYCLE / cyclesPerSecond,
      demand: `its ${formatCount(sum(...wavefronts))} wavefronts take`,
      short: 'the wavefronts of shared memory',
      counters: wavefronts,
      counted: 'the wavefronts',
    },
    {
      name: 'L1 cache',
      seconds: sum(...SECTORS) / SECTORS_PER_CYCLE / cyclesPerSecond,
      demand: `its ${formatCount(sum(...SECTORS))} sectors of global memory take`,
      short: 'the accesses to global memory',
      counters: SECTORS,
      counted: 'the sectors',
    },
    {
      name: 'special functions',
      seconds: sum('special_function') / SPECIAL_PER_CYCLE / cyclesPerSecond,
      demand: `its ${formatCount(sum('special_function'))} exp2, rcp and the like take`,
      short: 'the special functions',
      counters: ['special_function'],
      counted: 'the special functions',
    },
    {
      name: 'tensor cores',
      seconds: sum('tensor') === 0 ? 0 : computed.flops / (peak.tflops * 1e12 * filled),
      demand: 'the products take',
      short: 'the products on tensor cores',
      counters: ['tensor'],
      counted: "the tensor cores' instructions",
    },
    {
      name: 'device memory',
      seconds: computed.bytes / (sheet.memoryGbPerSecond * 1e9),
      demand: 'moving every tensor once takes',
      short: 'moving every tensor through device memory',
      counters: SECTORS,
      counted: 'the traffic before the caches',
    },
  ];
}

/** Text such as "; line 34 of k.cu makes 97 % of the wavefronts"; empty if no line makes much. */
function lineText({ counters, counted }: Unit, launches: readonly LaunchCounts[]): string {
  const byPlace = new Map<string, number>();
  for (const [place, counts] of launches.flatMap(({ lines }) => Object.entries(lines)))
    for (const name of counters) byPlace.set(place, (byPlace.get(place) ?? 0) + (entryOf(counts, name) ?? 0));
  const all = [...byPlace.values()].reduce((sum, count) => sum + count, 0);
  const sorted = [...byPlace].map(([place, count]) => ({ place, count })).toSorted((a, b) => b.count - a.count);
  const [first] = sorted;
  if (first === undefined || first.count < SHARE_NAMED * all || first.count === 0) return '';
  // Lines that make about as much are named together, as work on one of them only moves the bound to the others.
  const named = sorted.filter(({ count }) => first.count < CLEAR_LEAD * count);
  const share = ({ count }: { count: number }): string => ((100 * count) / all).toFixed(0);
  const last = named.at(-1) ?? first;
  if (named.length === 1) return `; ${linesNamed([first.place])} makes ${share(first)} % of ${counted}`;
  const each = share(first) === share(last) ? share(first) : `${share(last)} to ${share(first)}`;
  return `; ${linesNamed(named.map(({ place }) => place))} make ${each} % of ${counted} each`;
}

/** Places such as "k.cu:34" in words: "line 34 of k.cu", "lines 34 and 40 of k.cu". */
function linesNamed(places: readonly string[]): string {
  const [first = '', ...rest] = places;
  if (rest.some((place) => fileOf(place) !== fileOf(first)))
    return listed(places.map((place) => `line ${lineOf(place)} of ${fileOf(place)}`));
  return `line${rest.length === 0 ? '' : 's'} ${listed(places.map(lineOf))} of ${fileOf(first)}`;
}
