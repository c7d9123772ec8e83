/** Texts for people, and handling of foreign texts. */
export { DeadlinePassed, withinDeadline } from './deadline.ts';
export { EMULATOR_TIMES } from './numbers.ts';
export { entryOf, setEntry, withoutEntry } from './entry-of.ts';
export { errorText } from './plain-text.ts';
export { didYouMean, nearestNames } from './nearest-names.ts';
export { bytesText, counted, formatCount, formatError, formatNumber, formatPair } from './numbers.ts';
export { plainLine, plainText, wrapped } from './plain-text.ts';
export { shellWord } from './plain-text.ts';
export { TOKEN_PREFIX, withoutTokens } from './plain-text.ts';
