/**
 * Successive halving on interleaved blocks: decides which contenders continue, which are dropped and why. Pure:
 * measuring is passed in.
 */

/**
 * A contender against the leader of its round. Ratios are the leader's time over the contender's: above 1, the
 * contender is faster.
 */
export interface Measured {
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
}

export interface RaceOptions<Contender> {
  readonly contenders: readonly Contender[];
  /** Samples of each build in a round; doubled from round to round. */
  readonly samples: number;
  readonly rounds: number;
  /** Times leader and contender in interleaved blocks; undefined if the contender failed, which drops it. */
  readonly measure: (leader: Contender, contender: Contender, samples: number) => Promise<Measured | undefined>;
  /** Called before each measurement; false ends the race. */
  readonly mayGoOn: () => boolean;
  readonly onDropped: (contender: Contender, why: string) => void;
}

export interface RaceEnd<Contender> {
  /** Best first. It includes the contenders whose interval does not separate them from the best. */
  readonly standing: readonly { readonly contender: Contender; readonly measured: Measured | undefined }[];
  /** False if the budget was used up before the last round. */
  readonly complete: boolean;
}

const EVEN: Measured = { ratio: 1, low: 1, high: 1 };

/**
 * Races contenders, of which the first leads the first round. A contender is dropped when its whole interval is slower
 * than the leader; the faster half of the rest continues to the next round, which has twice the samples. A contender
 * whose whole interval is faster takes the lead.
 */
export async function race<Contender>(options: RaceOptions<Contender>): Promise<RaceEnd<Contender>> {
  const { contenders, rounds, measure, mayGoOn, onDropped } = options;
  let [leader, ...others] = contenders;
  if (leader === undefined) return { standing: [], complete: true };
  let standing: { contender: Contender; measured: Measured | undefined }[] = contenders.map((contender) => ({
    contender,
    measured: undefined,
  }));
  for (let round = 0, samples = options.samples; round < rounds && others.length > 0; ++round, samples *= 2) {
    const alive: { contender: Contender; measured: Measured }[] = [];
    for (const contender of others) {
      if (!mayGoOn()) return { standing, complete: false };
      const measured = await measure(leader, contender, samples);
      if (!measured) onDropped(contender, 'failed while it was timed');
      else if (measured.high < 1)
        onDropped(contender, `slower than the leader of round ${round + 1}: ${timesText(measured)} as fast`);
      else alive.push({ contender, measured });
    }
    alive.sort((a, b) => b.measured.ratio - a.measured.ratio);
    const [first] = alive;
    // The leader is part of the half that continues.
    const kept = round === rounds - 1 ? alive : alive.slice(0, Math.ceil((alive.length + 1) / 2));
    const fastest = Math.max(1, first?.measured.ratio ?? 1);
    for (const { contender, measured } of alive.slice(kept.length)) {
      const asFast = (measured.ratio / fastest).toFixed(3);
      onDropped(contender, `in the slower half of round ${round + 1}: about ${asFast}x as fast as the fastest in it`);
    }
    const before = { contender: leader, measured: EVEN };
    if (first && first.measured.low > 1) {
      const ahead = first.measured;
      leader = first.contender;
      standing = [before, ...kept]
        .map(({ contender, measured }) => ({ contender, measured: over(measured, ahead, contender === leader) }))
        .sort((a, b) => b.measured.ratio - a.measured.ratio);
    } else {
      standing = [before, ...kept];
    }
    others = standing.map(({ contender }) => contender).filter((contender) => contender !== leader);
  }
  return { standing, complete: true };
}

/**
 * Converts a ratio to the former leader into a ratio to the new one. Uses the point estimate, because the joint
 * interval is unknown.
 */
const over = (measured: Measured, ahead: Measured, isAhead: boolean): Measured =>
  isAhead
    ? EVEN
    : { ratio: measured.ratio / ahead.ratio, low: measured.low / ahead.ratio, high: measured.high / ahead.ratio };

const timesText = ({ ratio, low, high }: Measured): string =>
  `${ratio.toFixed(3)} x [${low.toFixed(3)}, ${high.toFixed(3)}]`;

/** Combines several shapes: geometric means of the ratios and of the interval ends. */
export function overShapes(shapes: readonly Measured[]): Measured | undefined {
  if (shapes.length === 0) return undefined;
  const mean = (value: (measured: Measured) => number): number =>
    Math.exp(shapes.reduce((sum, measured) => sum + Math.log(value(measured)), 0) / shapes.length);
  return { ratio: mean(({ ratio }) => ratio), low: mean(({ low }) => low), high: mean(({ high }) => high) };
}

/** Indices of rows that no other row beats in every figure; smaller is better, and unknown figures beat nothing. */
export function paretoFront(figures: readonly (readonly (number | undefined)[])[]): number[] {
  const known = figures.map((row) => row.every((value) => value !== undefined));
  const beats = (a: readonly (number | undefined)[], b: readonly (number | undefined)[]): boolean =>
    a.every((value, axis) => value! <= b[axis]!) && a.some((value, axis) => value! < b[axis]!);
  return figures.flatMap((row, place) =>
    known[place] && !figures.some((other, index) => index !== place && known[index] && beats(other, row))
      ? [place]
      : [],
  );
}
