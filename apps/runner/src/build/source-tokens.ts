/** A word, a number or any other single character of a source, with its position. */
export interface Token {
  text: string;
  index: number;
}

const TOKEN = /\s*(\w+|\S)/y;

/** At most `most` tokens from `from` on. `most` bounds how much text is read twice, so that a scan stays linear. */
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

/** The positions at which a text contains a word as a whole word. */
export function* wordIndices(text: string, word: string): Generator<number> {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
    if (!isWordCharacter(text[at - 1]) && !isWordCharacter(text[at + word.length])) yield at;
  }
}

export const isWordCharacter = (character: string | undefined): boolean =>
  character !== undefined && /\w/.test(character);
