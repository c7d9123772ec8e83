import type { SdpaReuse } from '@flashcore/shared/contract';
import { counted, formatNumber } from './numbers.ts';

/**
 * Explains that an SDPA figure comes from another job: "figure of jobs/x, checked with 9 samples: +0.3 % of at most 1.5
 * %".
 */
export const reuseText = ({ job, checkSamples, drift, driftLimit }: SdpaReuse): string =>
  `figure of ${job}, checked with ${counted(checkSamples, 'sample')}: ${drift < 0 ? '-' : '+'}${formatNumber(Math.abs(100 * drift))} % of at most ${formatNumber(100 * driftLimit)} %`;
