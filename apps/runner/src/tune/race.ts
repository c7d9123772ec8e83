/**
 * Successive halving on interleaved blocks: who goes on, who is dropped and why. Pure: what is measured is passed in.
 */

/** A contender against the leader of its round. Ratios are the leader's time over its own: above 1 it is faster. */
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
  /** Leader and contender in interleaved blocks; undefined: it failed while it was timed, and is dropped for that. */
  readonly measure: (leader: Contender, contender: Contender, samples: number) => Promise<Measured | undefined>;
  /** Asked before each measurement. */
  readonly mayGoOn: () => boolean;
  readonly onDropped: (contender: Contender, why: string) => void;
}

export interface RaceEnd<Contender> {
  /** Best first; those that no interval tells apart from the first among them. */
  readonly standing: readonly { readonly contender: Contender; readonly measured: Measured | undefined }[];
  /** False: the budget was used up before the last round. */
  readonly complete: boolean;
}

const EVEN: Measured = { ratio: 1, low: 1, high: 1 };

/**
 * Races contenders, the first of which leads the first round. A contender is dropped when its whole interval is slower
 * than the leader; of those that are left the faster half goes on to the next round, which has twice the samples. One
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
    // The leader has a place of its own in the half that goes on.
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
 * A ratio over the former leader as one over the new one: by its middle, for the interval between the two is not known.
 */
const over = (measured: Measured, ahead: Measured, isAhead: boolean): Measured =>
  isAhead
    ? EVEN
    : { ratio: measured.ratio / ahead.ratio, low: measured.low / ahead.ratio, high: measured.high / ahead.ratio };

const timesText = ({ ratio, low, high }: Measured): string =>
  `${ratio.toFixed(3)} x [${low.toFixed(3)}, ${high.toFixed(3)}]`;

/** Several shapes as one: the geometric means of ratios and ends. */
export function overShapes(shapes: readonly Measured[]): Measured | undefined {
  if (shapes.length === 0) return undefined;
  const mean = (value: (measured: Measured) => number): number =>
    Math.exp(shapes.reduce((sum, measured) => sum + Math.log(value(measured)), 0) / shapes.length);
  return { ratio: mean(({ ratio }) => ratio), low: mean(({ low }) => low), high: mean(({ high }) => high) };
}

/** Places of those that no other beats in every figure at once; smaller is better, and unknown beats nobody. */
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
