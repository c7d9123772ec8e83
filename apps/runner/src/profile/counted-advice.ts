/** Says where a kernel's instructions go, by rules over the emulator's counts, with the figures and lines. */
import type { ProblemCase } from '@flashcore/shared/kernels';
import { entryOf, formatCount, formatNumber } from '@flashcore/shared/text';
import type { LaunchCounts } from '../../worker/messages/profiling.ts';
import type { NamedAdvice } from './advice.ts';

/** The share of all instructions at which a family is worth mentioning. */
const MUCH_CONVERSION = 0.15;
const MUCH_MEMORY = 0.25;
const MUCH_INTEGER = 0.4;
const MUCH_FMA = 0.4;
/** Products of matrices do more FLOPs for each byte of their tensors; reductions and element-wise kernels do fewer. */
const FLOPS_PER_BYTE_OF_PRODUCTS = 16;
/** Shared-memory requests for each arithmetic instruction; a tile in registers needs fewer. */
const REQUESTS_PER_PRODUCT = 0.5;
/** 32 lanes that read 16 adjacent bytes each touch 16 sectors. */
const MOST_SECTORS = 16;
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
  const wavefronts = of('shared_load_wavefronts');
  const sectors = of('global_load_sectors') / Math.max(1, of('global_load_requests'));
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
      evidence: `multiply-adds are ${share('fma')} of all instructions, none is a tensor core's${linesText(launch, 'fma')}`,
    },
    {
      rule: 'shared loads',
      applies:
        products > 0 &&
        (boundByShared || (of('memory') >= MUCH_MEMORY * all && requests > REQUESTS_PER_PRODUCT * products)),
      weight: boundByShared ? Infinity : of('memory'),
      text: 'Loads from shared memory feed the arithmetic: keep operands in registers and let each thread compute several outputs, so that a loaded value is used more than once',
      evidence: `memory instructions are ${share('memory')} of all; ${formatCount(requests)} shared-memory loads (${formatCount(wavefronts)} wavefronts) for ${formatCount(products)} multiply-adds${linesText(launch, 'shared_load_requests')}`,
    },
    {
      rule: 'conversions',
      applies: of('conversion') >= MUCH_CONVERSION * all,
      weight: of('conversion'),
      text: 'Conversions between number formats take issue slots: convert a value once where it is loaded, or multiply in the format of the tensors (half2, tensor cores)',
      evidence: `conversions are ${share('conversion')} of all instructions${linesText(launch, 'conversion')}`,
    },
    {
      rule: 'integer',
      applies: of('integer') >= MUCH_INTEGER * all,
      weight: of('integer'),
      text: 'Index arithmetic and moves outweigh the arithmetic: take what does not change out of loops, advance pointers instead of multiplying indices, and unroll with constant bounds',
      evidence: `integer instructions and moves are ${share('integer')} of all${linesText(launch, 'integer')}`,
    },
    {
      rule: 'scattered loads',
      applies: sectors > MOST_SECTORS,
      weight: of('memory'),
      text: 'Lanes of a warp load from scattered places: let adjacent lanes read adjacent addresses',
      evidence: `${formatNumber(sectors, 3)} sectors of 32 bytes a request${linesText(launch, 'global_load_sectors')}`,
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

/**
 * Text such as "; most on line 127 (41 %) and line 38 (22 %)"; empty if no line has any. Names the files if the counted
 * lines are in several.
 */
function linesText({ counts, lines }: LaunchCounts, name: string): string {
  const all = Math.max(1, entryOf(counts, name) ?? 0);
  const fileOf = (place: string): string => place.slice(0, place.lastIndexOf(':'));
  const isOneFile = new Set(Object.keys(lines).map(fileOf)).size === 1;
  const lineOf = (place: string): string =>
    `line ${place.slice(place.lastIndexOf(':') + 1)}${isOneFile ? '' : ` of ${fileOf(place)}`}`;
  const most = Object.entries(lines)
    .map(([place, of]) => ({ line: lineOf(place), count: entryOf(of, name) ?? 0 }))
    .filter(({ count }) => count > 0)
    .sort((a, b) => b.count - a.count)
    .slice(0, LINES_NAMED);
  return most.length === 0
    ? ''
    : `; most on ${most.map(({ line, count }) => `${line} (${percent(count / all)})`).join(' and ')}`;
}

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;
