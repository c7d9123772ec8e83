/**
 * Caches answers for recent texts, because most rows of a frame also occur in the frame before. tools/fast-ink.mjs adds
 * this to Ink.
 */

// Enough for a few frames of a large screen.
const MOST_TEXTS = 512;

/** `answer` must be pure. */
export function remembered(answer: (text: string) => string): (text: string) => string {
  let young = new Map<string, string>();
  let old = new Map<string, string>();
  return (text) => {
    const known = young.get(text);
    if (known !== undefined) return known;
    const given = old.get(text) ?? answer(text);
    if (young.size >= MOST_TEXTS) [young, old] = [new Map<string, string>(), young];
    young.set(text, given);
    return given;
  };
}
