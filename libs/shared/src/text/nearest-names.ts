/** Finds names that a mistyped name may mean. */

const MAX_SUGGESTIONS = 3;
// Names and lists of names are short. Anything longer is not a mistyped name, and comparing it would take long.
const MAX_LENGTH = 64;
const MAX_NAMES = 500;

/**
 * The entries of `names` that are close to `wanted`, nearest first, at most three. Close means within an edit distance
 * of a third of the length (at least two; one for a word of four letters), or that one contains the other. Case, "-"
 * and "_" are ignored. Names without anything in common are not close.
 */
export function nearestNames(wanted: string, names: Iterable<string>): string[] {
  if (wanted.length > MAX_LENGTH) return [];
  const plain = simplify(wanted);
  return firsts(names, MAX_NAMES)
    .filter((name) => name.length <= MAX_LENGTH)
    .map((name) => ({ name, distance: distanceOf(plain, simplify(name)) }))
    .filter(
      ({ name, distance }) =>
        distance <= mostEdits(plain, simplify(name)) && distance < Math.max(plain.length, simplify(name).length),
    )
    .sort((a, b) => a.distance - b.distance || a.name.localeCompare(b.name, undefined, { numeric: true }))
    .slice(0, MAX_SUGGESTIONS)
    .map(({ name }) => name);
}

/** In a word of four letters two edits are half of the word: "runn" is not a typo of "tune". */
function mostEdits(wanted: string, name: string): number {
  const isPart = name.includes(wanted) || wanted.includes(name);
  return wanted.length <= 4 && !isPart ? 1 : Math.max(2, Math.floor(wanted.length / 3));
}

/** Formats ` (did you mean "a" or "b"?)` for the end of an error text; empty if no name is close. */
export function didYouMean(wanted: string, names: Iterable<string>): string {
  const nearest = nearestNames(wanted, names);
  return nearest.length === 0 ? '' : ` (did you mean ${nearest.map((name) => `"${name}"`).join(' or ')}?)`;
}

const simplify = (name: string) => name.toLowerCase().replaceAll(/[-_]/g, '');

function firsts(names: Iterable<string>, most: number): string[] {
  const taken: string[] = [];
  for (const name of names) {
    if (taken.length >= most) break;
    taken.push(name);
  }
  return taken;
}

function distanceOf(wanted: string, name: string): number {
  // Each additional letter is an edit, so most names need no table.
  const apart = Math.abs(wanted.length - name.length);
  const edits = apart > Math.max(2, wanted.length / 3) ? apart : editDistance(wanted, name);
  const contained = wanted.length >= 2 && name.length >= 2 && (name.includes(wanted) || wanted.includes(name));
  return contained ? Math.min(edits, 2) : edits;
}

/** Levenshtein's distance, where two swapped neighbors are one edit. */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; ++i) {
    const current = [i];
    for (let j = 1; j <= b.length; ++j) {
      const substitution = previous[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swap = isSwapped ? beforePrevious[j - 2]! + 1 : Infinity;
      current.push(Math.min(substitution, previous[j]! + 1, current[j - 1]! + 1, swap));
    }
    beforePrevious = previous;
    previous = current;
  }
  return previous[b.length]!;
}
