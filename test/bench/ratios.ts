/**
 * Measures what a user waits for, as a multiple of a yardstick measured in the same run, so that a machine's speed
 * cancels out.
 */
export interface Bench {
  id: string;
  /** Descriptions of the measured work and of the yardstick's work. */
  what: string;
  yardstick: string;
  /** Measures the work once, in milliseconds; measureYardstick does the same for the yardstick. */
  measure: () => Promise<number>;
  measureYardstick: () => Promise<number>;
}

export interface Figure {
  id: string;
  what: string;
  yardstick: string;
  milliseconds: number;
  yardstickMilliseconds: number;
  ratio: number;
}

export const ROUNDS = 5;

/**
 * Measures the work and its yardstick in turns, after a round of each to warm up. Returns their medians, and the median
 * of the rounds' ratios.
 */
export async function figureOf(bench: Bench, keptRounds = ROUNDS): Promise<Figure> {
  const rounds: { ours: number; yardstick: number }[] = [];
  for (let round = 0; round <= keptRounds; round++) {
    const yardstick = await bench.measureYardstick();
    rounds.push({ ours: await bench.measure(), yardstick });
  }
  const kept = rounds.slice(1);
  return {
    id: bench.id,
    what: bench.what,
    yardstick: bench.yardstick,
    milliseconds: median(kept.map(({ ours }) => ours)),
    yardstickMilliseconds: median(kept.map(({ yardstick }) => yardstick)),
    ratio: median(kept.map(({ ours, yardstick }) => ours / yardstick)),
  };
}

export const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;

/** A copy of the bench that does its work twice. A comparison must report it as slower. */
export const slowed = (bench: Bench): Bench => ({
  ...bench,
  measure: async () => (await bench.measure()) + (await bench.measure()),
});

/** Code is worse if it takes more than this many times the earlier code's time. */
const WORSE = 1.3;
const TRIES = 3;

export interface Comparison {
  /** For each try, the time now divided by the time before. */
  quotients: number[];
  worse: boolean;
}

/**
 * Measures again while the code looks worse. The code counts as worse only if it looks worse in every try.
 *
 * @param quotientOf measures the code before and now, and returns now divided by before. It gets the number of the try,
 * from 0.
 */
export function compared(quotientOf: (attempt: number) => number): Comparison {
  const quotients: number[] = [];
  const worse = () => quotients.every((each) => each > WORSE);
  while (quotients.length < TRIES && worse()) quotients.push(quotientOf(quotients.length));
  return { quotients, worse: worse() };
}
