/** Texts for people. */
export { didYouMean, nearestNames } from './nearest-names.ts';
