import type { Device, SdpaResult } from '@flashcore/shared/contract';
import { findDataSheet, rooflineSeconds, type Work } from '@flashcore/shared/kernels';

/** Absent on the emulator, because rates of its times could be mistaken for a GPU's. */
export function ratesOf(
  device: Device,
  { seconds, ...work }: TimedWork,
): { tflops?: number; gbPerSecond?: number; rooflinePercent?: number } {
  if (device.simulated || seconds <= 0) return {};
  const sheet = findDataSheet(device.name);
  return {
    tflops: work.flops / seconds / 1e12,
    gbPerSecond: work.bytes / seconds / 1e9,
    ...(sheet && { rooflinePercent: (100 * rooflineSeconds(work, sheet)) / seconds }),
  };
}

/** SDPA's rates are about the same arithmetic and the same bytes. */
export function withRates(results: SdpaResult[], device: Device, work: Work): SdpaResult[] {
  return results.map((result) => ({
    ...result,
    ...ratesOf(device, { seconds: (result.latency?.p50Us ?? 0) / 1e6, ...work }),
  }));
}

interface TimedWork extends Work {
  seconds: number;
}
