/** How the CTAs of a launch fill a device. */
import { create } from '@bufbuild/protobuf';
import { type LaunchWaves, LaunchWavesSchema } from '../generated/flashcore/runner/v1/result_pb.js';

export interface WaveInput {
  /** In formatShape()'s form. */
  shape: string;
  ctas: number;
  /** CTAs that a multiprocessor holds at once, at least 1. */
  ctasPerSm: number;
  multiprocessors: number;
}

/**
 * Computes waves and tail efficiency. Waves are the CTAs divided by those that the device holds at once. In a single
 * wave the CTAs are spread over the multiprocessors, and the one with the most CTAs sets the pace. With more waves, the
 * last one takes as long as a full one. All CTAs are assumed to take the same time.
 */
export function launchWaves({ shape, ctas, ctasPerSm, multiprocessors }: WaveInput): LaunchWaves {
  const waves = ctas / (multiprocessors * ctasPerSm);
  const efficiency =
    waves <= 1 ? ctas / (multiprocessors * Math.ceil(ctas / multiprocessors)) : waves / Math.ceil(waves);
  const tailEfficiencyPercent = 100 * efficiency;
  const idle = 100 - tailEfficiencyPercent;
  const count = ctas.toLocaleString('en');
  const text =
    waves <= 1
      ? `${count} CTAs on ${multiprocessors} SMs: one wave, ${idle.toFixed(0)} % idle`
      : `${count} work items in ${waves.toFixed(1)} waves on ${multiprocessors} SMs, ${idle.toFixed(0)} % idle`;
  return create(LaunchWavesSchema, { shape, ctas: BigInt(ctas), multiprocessors, waves, tailEfficiencyPercent, text });
}
