/** The rule that decides when a candidate may replace the champion, applied to one shape and to all shapes. */
import { timingModeName } from '../contract/names.ts';
import type { Shape } from '../generated/flashcore/runner/v1/kernel_pb.js';
import {
  ComparisonVerdict,
  StopReason,
  type RatioInterval,
  type ShapeComparison,
} from '../generated/flashcore/runner/v1/result_pb.js';
import { formatShape, sameShape } from '../kernels/shape.ts';
import { EMULATOR_TIMES } from '../text/numbers.ts';

/**
 * The limits that ComparisonRule describes. Two copies of one kernel differ by 1 %, and a change below 3 % is not worth
 * a new champion.
 */
export const COMPARISON_RULE = { acceptRatio: 1.03, floorRatio: 0.99, noiseLimit: 0.015 } as const;
/** Minimum number of samples of a build for a reliable interval. */
const LEAST_SAMPLES = 30;
/** Minimum number of blocks of the self-check. A block has two samples of a build, so this is LEAST_SAMPLES too. */
const LEAST_SELF_BLOCKS = LEAST_SAMPLES / 2;

type Ratio = Pick<RatioInterval, 'ratio' | 'low' | 'high'>;

export interface Judgement {
  verdict: ComparisonVerdict;
  reason: string;
}
export type MeasuredComparison = Partial<Record<'time' | 'cycles' | 'selfTime' | 'selfCycles', Ratio>> &
  Pick<ShapeComparison, 'selfBlocks' | 'champion' | 'candidate' | 'clockSource' | 'stopReason' | 'simulated'>;

/**
 * Judges the measurement of one shape. `invalid` is a reason not to judge it at all (a wrong output, too many dropped
 * samples).
 */
export function judgeShape(measured: MeasuredComparison, invalid?: string): Judgement {
  const refusal = invalid ?? notJudgeable(measured) ?? selfCheckProblem(measured);
  if (refusal !== undefined || !measured.time)
    return { verdict: ComparisonVerdict.NOT_JUDGED, reason: refusal ?? 'it was not measured' };
  const noise = selfDeviation(measured);
  return noise <= COMPARISON_RULE.noiseLimit ? judgeRatios(measured, 0) : judgeInNoise(measured, noise);
}

/**
 * Judges a shape whose champion differs from itself by more than the limit. Both limits become stricter by that
 * difference: a kernel that is five times faster is faster on a noisy GPU too.
 */
function judgeInNoise(measured: MeasuredComparison, noise: number): Judgement {
  const { verdict, reason } = judgeRatios(measured, noise);
  if (verdict === ComparisonVerdict.FASTER || verdict === ComparisonVerdict.SLOWER)
    return {
      verdict,
      reason: `${reason}, also when they are ${(100 * noise).toFixed(2)} % off, as the champion is from itself`,
    };
  return {
    verdict: ComparisonVerdict.NOT_JUDGED,
    reason: noiseText('time', measured.selfTime) ?? noiseText('cycles', measured.selfCycles) ?? reason,
  };
}

/** Judges the ratios, with both limits stricter by `noise`, a fraction. */
function judgeRatios(
  { time, cycles, clockSource }: Pick<MeasuredComparison, 'time' | 'cycles' | 'clockSource'>,
  noise: number,
): Judgement {
  if (!time) return { verdict: ComparisonVerdict.NOT_JUDGED, reason: 'it was not measured' };
  const figures = `${ratioText(time)} in time${cycles ? `, ${ratioText(cycles)} in cycles` : ''}`;
  const { acceptRatio, floorRatio } = COMPARISON_RULE;
  const certain = 1 - noise;
  if (Math.min(time.ratio, cycles?.ratio ?? Infinity) < floorRatio * certain)
    return { verdict: ComparisonVerdict.SLOWER, reason: `${figures}: below ${floorRatio}` };
  if (time.low * certain < acceptRatio)
    return {
      verdict: ComparisonVerdict.WITHIN_MARGIN,
      reason: `${figures}: the lower end in time is below ${acceptRatio}`,
    };
  if (!cycles)
    return {
      verdict: ComparisonVerdict.NOT_JUDGED,
      reason: `${figures}, and whether it is so in cycles is not known (${clockSource})`,
    };
  if (cycles.low * certain < acceptRatio)
    return {
      verdict: ComparisonVerdict.WITHIN_MARGIN,
      reason: `${figures}: the lower end in cycles is below ${acceptRatio}`,
    };
  return { verdict: ComparisonVerdict.FASTER, reason: `${figures}: both lower ends reach ${acceptRatio}` };
}

/** One shape in one timing mode. */
type ComparedShape = Pick<ShapeComparison, 'shape' | 'verdict' | 'reason'> & Partial<Pick<ShapeComparison, 'mode'>>;

/**
 * Judges all shapes together: none may be slower or unknown, and one must be faster. `asked` lists the requested
 * shapes; a shape without a measurement is unknown.
 */
export function judgeComparison(measured: readonly ComparedShape[], asked: readonly Shape[]): Judgement {
  const missing = asked.filter((shape) => !measured.some((each) => each.shape && sameShape(each.shape, shape)));
  const shapes: ComparedShape[] = [
    ...measured,
    ...missing.map((shape) => ({ shape, verdict: ComparisonVerdict.NOT_JUDGED, reason: 'it was not measured' })),
  ];
  const order = [
    ComparisonVerdict.SLOWER,
    ComparisonVerdict.NOT_JUDGED,
    ComparisonVerdict.FASTER,
    ComparisonVerdict.WITHIN_MARGIN,
  ];
  const decisive = order.flatMap((verdict) => shapes.find((shape) => shape.verdict === verdict) ?? [])[0];
  if (!decisive) return { verdict: ComparisonVerdict.NOT_JUDGED, reason: 'no shape was compared' };
  return { verdict: decisive.verdict, reason: decisiveText(decisive, shapes) };
}

/** Describes the deciding comparison and how many share its verdict. A shape timed hot and cold is two comparisons. */
function decisiveText({ shape, mode, verdict, reason }: ComparedShape, all: readonly ComparedShape[]): string {
  const distinct = new Set(all.map((each) => (each.shape ? formatShape(each.shape) : ''))).size;
  const severalModes = all.length > distinct;
  const modeName = severalModes && mode !== undefined ? timingModeName(mode) : undefined;
  const place = shape ? `${formatShape(shape)}${modeName === undefined ? '' : ` ${modeName}`}: ` : '';
  if (all.length === 1) return `${place}${reason}`;
  const count = all.filter((each) => each.verdict === verdict).length;
  const counted = severalModes ? `comparisons, ${distinct} ${distinct === 1 ? 'shape' : 'shapes'}` : 'shapes';
  return `${place}${reason} (${count} of ${all.length} ${counted})`;
}

function notJudgeable(measured: MeasuredComparison): string | undefined {
  const { simulated, champion, candidate, stopReason, time, cycles } = measured;
  if (simulated) return EMULATOR_TIMES;
  const samples = Math.min(champion?.samples ?? 0, candidate?.samples ?? 0);
  if (samples < LEAST_SAMPLES) return `${samples} samples of each build, ${LEAST_SAMPLES} are needed`;
  if ([time, cycles].some((each) => each && !isFiniteRatio(each)))
    return 'a ratio of the samples is not a finite number';
  return stopReason === StopReason.TIMED_OUT ? 'the time limit came before the interval was narrow enough' : undefined;
}

const isFiniteRatio = ({ ratio, low, high }: Ratio): boolean => [ratio, low, high].every(Number.isFinite);

/** Why the self-check is unusable; it must include cycles if the comparison does. */
function selfCheckProblem({ selfTime, selfCycles, selfBlocks, cycles }: MeasuredComparison): string | undefined {
  if (!selfTime || selfBlocks < LEAST_SELF_BLOCKS)
    return `${selfTime ? selfBlocks : 0} blocks of the champion against itself, ${LEAST_SELF_BLOCKS} are needed`;
  if ([selfTime, selfCycles].some((each) => each && !isFiniteRatio(each)))
    return 'a ratio of the champion to itself is not a finite number';
  return cycles && !selfCycles ? 'whether the champion differs from itself in cycles is not known' : undefined;
}

/** The largest distance from 1 of the ends of the self-check's intervals, in time and in cycles. */
const selfDeviation = ({ selfTime, selfCycles }: MeasuredComparison): number =>
  Math.max(...[selfTime, selfCycles].flatMap((self) => (self ? [1 - self.low, self.high - 1] : [])));

function noiseText(what: string, self: Ratio | undefined): string | undefined {
  const { noiseLimit } = COMPARISON_RULE;
  if (!self || (self.low >= 1 - noiseLimit && self.high <= 1 + noiseLimit)) return undefined;
  return `the champion differs from itself by ${ratioText(self)} in ${what}, by more than ±${noiseLimit * 100} %, and the candidate does not stand out from that`;
}

/** Formats a ratio as "1.0712 [1.0688, 1.0735]". */
const ratioText = ({ ratio, low, high }: Ratio): string =>
  `${ratio.toFixed(4)} [${low.toFixed(4)}, ${high.toFixed(4)}]`;
