/** A word, a number or a single other character of a source, and where it stands. */
export interface Token {
  text: string;
  index: number;
}

const TOKEN = /\s*(\w+|\S)/y;

/** At most `most` tokens from `from` on; what is read twice is bounded by `most`, so that a scan stays linear. */
export function tokensFrom(text: string, from: number, most: number): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = from;
  while (tokens.length < most) {
    const match = TOKEN.exec(text);
    if (!match) break;
    tokens.push({ text: match[1]!, index: TOKEN.lastIndex - match[1]!.length });
  }
  return tokens;
}

/** Where a word stands in a text, as a word of its own. */
export function* wordIndices(text: string, word: string): Generator<number> {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
    if (!isWordCharacter(text[at - 1]) && !isWordCharacter(text[at + word.length])) yield at;
  }
}

export const isWordCharacter = (character: string | undefined): boolean =>
  character !== undefined && /\w/.test(character);
