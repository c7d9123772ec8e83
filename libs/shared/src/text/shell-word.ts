/** A text as one word of a POSIX shell's line: as it is where it needs no quotes, else in single ones. */
export const shellWord = (text: string): string =>
  /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
