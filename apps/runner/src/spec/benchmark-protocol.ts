import { randomBytes } from 'node:crypto';
import { type BenchmarkProtocol, type Device, timingModeName } from '@flashcore/shared/contract';
import type { SamplingProtocol, TimingModeName } from '../../worker/messages/measuring.ts';

/** Version of the measuring protocol; part of every result. */
export const PROTOCOL_VERSION = 'flashcore-protocol 4';

/**
 * Version of the inputs of a verification. 1 (not named in old results): each seed draws the next of five
 * distributions. 2: the same bits, preceded by the probes of cases.yaml. 3: the same, with more probes, and with shapes
 * drawn for the run if its result may be accepted. 4: three more probes, and drawn shapes that cover all pairs of
 * sizes. 5: drawn shapes of every axis and attribute that the kernel uses, and probes of every problem. 6: the probes'
 * inputs also on the timed shapes. 7: also on small drawn shapes, in turn. 8: also on large shapes, where they are
 * repeated. 9: the largest numbers in K, and in bf16 and fp32 also numbers beyond fp16's range in Q and K. 10: the
 * probes' distributions for the backward pass. 11: single large elements for softmax and RMSNorm, and the probes'
 * distributions in timed launches of every problem.
 */
export const INPUTS_VERSION = 'flashcore-inputs 14';

/**
 * A seed for the heads that the inputs of timed launches are made from. Drawn here rather than in the worker, so that
 * the result has it even if the worker dies. The worker draws for each sample how a launch's inputs follow from those
 * heads.
 */
export const drawSeed = (): string => randomBytes(8).toString('hex');

export interface BenchmarkProtocolSpec {
  sampling: SamplingProtocol;
  /** How the protocol was shortened; undefined if it was not. */
  shortened: string | undefined;
}

const DEFAULT_MIN_SAMPLES = 100;
const DEFAULT_MAX_SAMPLES = 2_000;
const DEFAULT_MAX_SECONDS = 10;
const DEFAULT_HALF_WIDTH = 0.005;
const WARM_UP_SECONDS = 5;
/** Short, because times on the emulator decide nothing, and a user waits for them. */
const SIMULATED_MAX_SECONDS = 0.3;
const SIMULATED_WARM_UP_SECONDS = 0.02;

/** Fills in every default of the measuring protocol. */
export function planProtocol(
  asked: BenchmarkProtocol | undefined,
  device: Device,
): { modes: TimingModeName[]; protocol: BenchmarkProtocolSpec } {
  const modes = (asked?.modes ?? []).flatMap((mode) => timingModeName(mode) ?? []);
  const minSamples = asked?.minSamples || DEFAULT_MIN_SAMPLES;
  const maxSeconds = asked?.maxSeconds || (device.simulated ? SIMULATED_MAX_SECONDS : DEFAULT_MAX_SECONDS);
  return {
    modes: modes.length > 0 ? [...new Set(modes)] : ['cold', 'hot'],
    protocol: {
      sampling: {
        minSamples,
        maxSamples: Math.max(minSamples, asked?.maxSamples || DEFAULT_MAX_SAMPLES),
        maxSeconds,
        warmUpMaxSeconds: device.simulated ? SIMULATED_WARM_UP_SECONDS : WARM_UP_SECONDS,
        launchesPerSample: device.simulated ? 1 : 0,
        targetRelativeHalfWidth: asked?.targetRelativeHalfWidth || DEFAULT_HALF_WIDTH,
        samplesAsked: (asked?.maxSamples ?? 0) > 0,
      },
      shortened: device.simulated
        ? `protocol shortened on the emulator: at most ${maxSeconds} s per mode, warm-up ${SIMULATED_WARM_UP_SECONDS} s, one launch per graph, no L2 to flush`
        : undefined,
    },
  };
}
