import type { LatencyStatistics } from '@flashcore/shared/contract';
import type { SamplingProtocol } from '../../worker/messages/measuring.ts';

export type StopRule = Pick<SamplingProtocol, 'minSamples' | 'maxSamples' | 'maxSeconds' | 'targetRelativeHalfWidth'>;

/**
 * Estimate of how many samples a mode will take: until the median's interval is narrow enough (its width falls with the
 * square root of the number), within the protocol's minimum, maximum and time limit.
 */
export function expectedSamples(
  { samples, p50Us, p50LowUs, p50HighUs }: LatencyStatistics,
  elapsedMs: number,
  { minSamples, maxSamples, maxSeconds, targetRelativeHalfWidth }: StopRule,
): number {
  if (samples === 0) return 0;
  const halfWidth = (p50HighUs - p50LowUs) / 2 / p50Us;
  const untilNarrow = samples * (halfWidth / targetRelativeHalfWidth) ** 2;
  const inTime = elapsedMs > 0 ? (samples * maxSeconds * 1000) / elapsedMs : Infinity;
  const wanted = Math.min(maxSamples, inTime, Math.max(minSamples, untilNarrow));
  return Math.max(samples, Math.round(wanted));
}
