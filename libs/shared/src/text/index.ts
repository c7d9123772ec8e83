/** Texts for people, and handling of foreign texts. */
export { DeadlinePassed, withinDeadline } from './deadline.ts';
export { EMULATOR_TIMES, bytesText, counted, formatCount, formatError, formatNumber, formatPair } from './numbers.ts';
export { entryOf, setEntry, withoutEntry } from './entry-of.ts';
export { errorText, plainLine, plainText, wrapped, shellWord, TOKEN_PREFIX, withoutTokens } from './plain-text.ts';
export { didYouMean, nearestNames } from './nearest-names.ts';
