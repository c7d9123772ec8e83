/** Chooses the lines of a kernel that a text names, and writes them as words. */

export interface CostlyLine {
  /** For example "k.cu:34". */
  place: string;
  count: number;
}

/** A text names more lines than these only by their number. */
const MOST_NAMED = 6;
/** Lines within this ratio cost the same. */
const SAME = 1.01;

/**
 * The `wanted` costliest lines, and all lines that cost the same as the last of these. If that makes too many, `others`
 * is how many of them are not named.
 */
export function costliestLines(lines: readonly CostlyLine[], wanted: number): { named: CostlyLine[]; others: number } {
  const sorted = lines.filter(({ count }) => count > 0).toSorted((a, b) => b.count - a.count);
  const least = sorted[Math.min(wanted, sorted.length) - 1]?.count ?? 0;
  const costly = sorted.filter(({ count }, index) => index < wanted || count * SAME >= least);
  const named = costly.length <= MOST_NAMED ? costly : costly.slice(0, wanted);
  return { named, others: costly.length - named.length };
}

/** A list in words: "a", "a and b", "a, b and c". */
export const listed = (words: readonly string[]): string =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)!}`;

/** Text such as "k.cu:50, 51 and 70", which names a file once. */
export function placesText(places: readonly string[]): string {
  const [first = '', ...rest] = places;
  const file = fileOf(first);
  return listed([first, ...rest.map((place) => (fileOf(place) === file ? lineOf(place) : place))]);
}

export const fileOf = (place: string): string => place.slice(0, place.lastIndexOf(':'));
export const lineOf = (place: string): string => place.slice(place.lastIndexOf(':') + 1);
