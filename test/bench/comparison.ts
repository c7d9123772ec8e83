/** This many times what the earlier code takes is worse. */
const WORSE = 1.3;
const TRIES = 3;

export interface Comparison {
  /** Of each try, what it takes now over what it took before. */
  quotients: number[];
  worse: boolean;
}

/**
 * Tries again while it looks worse; worse is what does so in every try.
 *
 * @param quotientOf measures both, and gives now over before; tries count from 0.
 */
export function compared(quotientOf: (attempt: number) => number): Comparison {
  const quotients: number[] = [];
  const worse = () => quotients.every((each) => each > WORSE);
  while (quotients.length < TRIES && worse()) quotients.push(quotientOf(quotients.length));
  return { quotients, worse: worse() };
}
