import type { Device, SdpaResult } from '@flashcore/shared/contract';
import { findDataSheet, rooflineSeconds } from '@flashcore/shared/kernels';

/** Absent on the emulator: rates of its times would be taken for a GPU's. */
export function ratesOf(
  device: Device,
  { seconds, flops, bytes }: TimedWork,
): { tflops?: number; gbPerSecond?: number; rooflinePercent?: number } {
  if (device.simulated || seconds <= 0) return {};
  const sheet = findDataSheet(device.name);
  return {
    tflops: flops / seconds / 1e12,
    gbPerSecond: bytes / seconds / 1e9,
    ...(sheet && { rooflinePercent: (100 * rooflineSeconds(flops, bytes, sheet)) / seconds }),
  };
}

/** SDPA's rates are about the same arithmetic and the same bytes. */
export function withRates(
  results: SdpaResult[],
  device: Device,
  { flops, bytes }: { flops: number; bytes: number },
): SdpaResult[] {
  return results.map((result) => ({
    ...result,
    ...ratesOf(device, { seconds: (result.latency?.p50Us ?? 0) / 1e6, flops, bytes }),
  }));
}

interface TimedWork {
  seconds: number;
  flops: number;
  bytes: number;
}
