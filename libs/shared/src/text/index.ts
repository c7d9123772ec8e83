/** Texts for people. */
export { didYouMean, nearestNames } from './nearest-names.ts';
export { plainLine, plainText } from './plain-text.ts';
