/**
 * Samples that a figure of latency needs. Of fewer, a percentile says no more than the greatest sample, 1 / (1 - p);
 * and from the least to the greatest of fewer than five, the median lies less often than 93 times of 100.
 */
export const FEWEST_SAMPLES = { interval: 5, p90: 10, p95: 20, p99: 100, deviation: 2 } as const;
