/** More than this many times the earlier code's time is worse. */
const WORSE = 1.3;
const TRIES = 3;

export interface Comparison {
  /** For each try, the time now divided by the time before. */
  quotients: number[];
  worse: boolean;
}

/**
 * Tries again while the code looks worse; it is worse if it looks so in every try.
 *
 * @param quotientOf measures both and returns now divided by before; tries count from 0.
 */
export function compared(quotientOf: (attempt: number) => number): Comparison {
  const quotients: number[] = [];
  const worse = () => quotients.every((each) => each > WORSE);
  while (quotients.length < TRIES && worse()) quotients.push(quotientOf(quotients.length));
  return { quotients, worse: worse() };
}
