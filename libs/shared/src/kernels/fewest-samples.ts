/**
 * Minimum number of samples for each latency figure. With fewer than 1 / (1 - p) samples, a percentile tells no
 * more than the greatest sample. With fewer than five, the interval from the least to the greatest contains the median
 * less than 93 % of the time.
 */
export const FEWEST_SAMPLES = { interval: 5, p90: 10, p95: 20, p99: 100, deviation: 2 } as const;
