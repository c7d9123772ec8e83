/** Says where a kernel's instructions go, by rules over the emulator's counts, with the figures and lines. */
import type { ProblemCase } from '@flashcore/shared/kernels';
import { entryOf, formatCount, formatNumber } from '@flashcore/shared/text';
import type { LaunchCounts } from '../../worker/messages/profiling.ts';
import type { NamedAdvice } from './advice.ts';
import { costliestLines, fileOf, lineOf, listed } from './costly-lines.ts';

/** The share of all instructions at which a family is worth mentioning. */
const MUCH_CONVERSION = 0.15;
const MUCH_MEMORY = 0.25;
const MUCH_INTEGER = 0.4;
const MUCH_FMA = 0.4;
/** Products of matrices do more FLOPs for each byte of their tensors; reductions and element-wise kernels do fewer. */
const FLOPS_PER_BYTE_OF_PRODUCTS = 16;
/** Shared-memory requests for each arithmetic instruction; a tile in registers needs fewer. */
const REQUESTS_PER_PRODUCT = 0.5;
const SECTOR_BYTES = 32;
/** Traffic is worth mentioning if this share of its bytes was not asked for. */
const MUCH_UNUSED = 0.3;
/** Sectors for each instruction; with fewer, the traffic takes a small part of the time. */
const SECTORS_PER_INSTRUCTION = 0.1;
const GLOBAL = ['global_load', 'global_store', 'async_copy'] as const;
const FEW_LANES = 24;
const LINES_NAMED = 2;

/** The problem's arithmetic, as far as advice depends on it. */
export type Computed = Pick<ProblemCase, 'dtype' | 'flops' | 'bytes'>;

/**
 * Advice from the counts of a launch, the largest share of instructions first. A kernel that shared memory bounds is
 * advised about it first, however few its loads are.
 */
export function countedAdvice(launch: LaunchCounts, computed: Computed, boundByShared = false): NamedAdvice[] {
  const of = (name: string): number => entryOf(launch.counts, name) ?? 0;
  const all = Math.max(1, of('instructions'));
  const share = (name: string): string => percent(of(name) / all);
  const products = of('fma') + of('tensor');
  const requests = of('shared_load_requests');
  // A kernel that shared memory bounds waits for the wavefronts.
  const shared = boundByShared ? 'shared_load_wavefronts' : 'shared_load_requests';
  const sharedWord = boundByShared ? 'wavefronts of shared-memory loads' : 'shared-memory loads';
  const traffic = globalTraffic(launch);
  const lanes = of('lanes') / all;
  const rules: (NamedAdvice & { applies: boolean; weight: number })[] = [
    {
      rule: 'no tensor cores',
      applies:
        of('tensor') === 0 &&
        of('fma') >= MUCH_FMA * all &&
        computed.dtype !== 'fp32' &&
        computed.flops >= FLOPS_PER_BYTE_OF_PRODUCTS * computed.bytes,
      weight: of('fma'),
      text: 'Multiply-adds fill the issue slots: give the matrix products to tensor cores (WMMA or mma.sync), where one instruction does hundreds of them',
      evidence: `multiply-adds are ${share('fma')} of all instructions, none is a tensor core's${linesText(launch, 'fma', 'the multiply-adds')}`,
    },
    {
      rule: 'shared loads',
      applies:
        products > 0 &&
        (boundByShared || (of('memory') >= MUCH_MEMORY * all && requests > REQUESTS_PER_PRODUCT * products)),
      weight: boundByShared ? Infinity : of('memory'),
      text: 'Loads from shared memory feed the arithmetic: keep operands in registers and let each thread compute several outputs, so that a loaded value is used more than once',
      // Loads are counted as ncu counts them, without the matrix loads (ldmatrix, wmma), whose wavefronts do count. So
      // loads and wavefronts belong to different lines, and only one of the two is given.
      evidence: `memory instructions are ${share('memory')} of all; ${formatCount(of(shared))} ${sharedWord} for ${formatCount(products)} multiply-adds${linesText(launch, shared, boundByShared ? 'the wavefronts' : 'the loads')}`,
    },
    {
      rule: 'conversions',
      applies: of('conversion') >= MUCH_CONVERSION * all,
      weight: of('conversion'),
      text: 'Conversions between number formats take issue slots: convert a value once where it is loaded, or multiply in the format of the tensors (half2, tensor cores)',
      evidence: `conversions are ${share('conversion')} of all instructions${linesText(launch, 'conversion', 'the conversions')}`,
    },
    {
      rule: 'integer',
      applies: of('integer') >= MUCH_INTEGER * all,
      weight: of('integer'),
      text: 'Index arithmetic and moves outweigh the arithmetic: take what does not change out of loops, advance pointers instead of multiplying indices, and unroll with constant bounds',
      evidence: `integer instructions and moves are ${share('integer')} of all${linesText(launch, 'integer', 'these')}`,
    },
    {
      rule: 'scattered accesses',
      applies: traffic.unused >= MUCH_UNUSED && traffic.sectors >= SECTORS_PER_INSTRUCTION * all,
      weight: of('memory'),
      text: `Lanes of a warp ${traffic.most === 'global_store' ? 'store to' : 'load from'} scattered places: let adjacent lanes ${traffic.most === 'global_store' ? 'write' : 'read'} adjacent addresses, or go through shared memory`,
      evidence: `${formatNumber(traffic.sectors / Math.max(1, traffic.requests), 3)} sectors of 32 bytes a request, and ${percent(traffic.unused)} of their bytes are not used${linesText(launch, (line) => unusedBytes(line, traffic.most), 'the unused bytes')}`,
    },
    {
      rule: 'idle lanes',
      applies: lanes < FEW_LANES,
      weight: all * (1 - lanes / 32),
      text: 'Lanes idle in branches and guards: let whole warps take a branch, and give the lanes of short rows more than one row',
      evidence: `${formatNumber(lanes, 3)} of 32 lanes take part in an instruction`,
    },
  ];
  return rules
    .filter(({ applies }) => applies)
    .sort((a, b) => b.weight - a.weight)
    .map(({ rule, text, evidence }) => ({ rule, text, evidence }));
}

/** Bytes of the touched sectors that no lane asked for. */
const unusedBytes = (of: Record<string, number>, access: Traffic['most']): number =>
  Math.max(0, SECTOR_BYTES * (entryOf(of, `${access}_sectors`) ?? 0) - (entryOf(of, `${access}_bytes`) ?? 0));

interface Traffic {
  sectors: number;
  requests: number;
  /** Share of the bytes of all sectors that no lane asked for. */
  unused: number;
  /** The accesses that move most unused bytes. */
  most: (typeof GLOBAL)[number];
}

/** Traffic with global memory. A line that reads the same bytes in several lanes makes up for no other line. */
function globalTraffic({ counts, lines }: LaunchCounts): Traffic {
  const parts = Object.keys(lines).length === 0 ? [counts] : Object.values(lines);
  const unused = GLOBAL.map((access) => parts.reduce((sum, part) => sum + unusedBytes(part, access), 0));
  const sum = (what: string): number =>
    GLOBAL.reduce((all, access) => all + (entryOf(counts, `${access}_${what}`) ?? 0), 0);
  return {
    sectors: sum('sectors'),
    requests: sum('requests'),
    unused: unused.reduce((all, each) => all + each, 0) / Math.max(1, SECTOR_BYTES * sum('sectors')),
    most: GLOBAL[unused.indexOf(Math.max(...unused))] ?? 'global_load',
  };
}

/**
 * Text such as "; most on line 127 (41 % of the conversions) and line 38 (22 %)"; empty if no line has any. Lines that
 * cost the same as the second are named too. Names the files if the counted lines are in several.
 */
function linesText(
  { counts, lines }: LaunchCounts,
  what: string | ((of: Record<string, number>) => number),
  counted: string,
): string {
  const figure = typeof what === 'string' ? (of: Record<string, number>): number => entryOf(of, what) ?? 0 : what;
  const parts = Object.values(lines).reduce((sum, of) => sum + figure(of), 0);
  // Lines that are not known still count, except that what one line wastes is not made up for by another.
  const all = Math.max(1, typeof what === 'string' ? figure(counts) : parts);
  const isOneFile = new Set(Object.keys(lines).map(fileOf)).size === 1;
  const nameOf = (place: string): string => `line ${lineOf(place)}${isOneFile ? '' : ` of ${fileOf(place)}`}`;
  const { named, others } = costliestLines(
    Object.entries(lines).map(([place, of]) => ({ place, count: figure(of) })),
    LINES_NAMED,
  );
  if (named.length === 0) return '';
  // The first percentage says of what: the table of lines has each line's share of all instructions.
  const names = named.map(
    ({ place, count }, index) => `${nameOf(place)} (${percent(count / all)}${index === 0 ? ` of ${counted}` : ''})`,
  );
  return `; most on ${listed([...names, ...(others === 0 ? [] : [`${others} other${others === 1 ? '' : 's'} as much`])])}`;
}

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;
