/** Medians, intervals, comparisons. */
export { type BlockRatio, blockRatioInterval } from './block-ratio.ts';
export { COMPARISON_RULE, judgeComparison, judgeShape, type Judgement } from './comparison.ts';
export { Random } from './random.ts';
export { describe, histogram, knowsPercentile, median, medianInterval, quantile, ratioInterval } from './statistics.ts';
