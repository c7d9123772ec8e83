/** Formats a text as one word of a POSIX shell: unchanged if it needs no quotes, else in single quotes. */
export const shellWord = (text: string): string =>
  /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
