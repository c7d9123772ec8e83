import { create } from '@bufbuild/protobuf';
import {
  Phase,
  PhaseStartedSchema,
  SdpaBenchmarkSchema,
  type SdpaBenchmark,
  type Shape,
  type Device,
  type SdpaResult,
  TIMING_MODES,
} from '@flashcore/shared/contract';
import { attentionCase, findDataSheet, rooflineSeconds, type Work } from '@flashcore/shared/kernels';
import { medianInterval } from '@flashcore/shared/statistics';
import type { SamplingProtocol, TimingModeName } from '../../worker/messages/measuring.ts';
import type { JobContext } from '../jobs/job-context.ts';
import type { SdpaBenchmark as SdpaProcesses } from '../sdpa/sdpa-benchmark.ts';
import type { SdpaShape } from '../sdpa/sdpa-shape.ts';
import type { SdpaSpec } from '../spec/sdpa-spec.ts';
import { LiveSamples } from './live-samples.ts';

/** Turns during this time are discarded, because the device's clock is still rising. */
const WARM_UP_SECONDS = 1;
/** The median's interval is checked again when the number of samples has grown by this factor. */
const LOOK_AGAIN_AFTER = 1.25;

/** The parts needed to measure SDPA. */
export interface SdpaAlone {
  job: Pick<JobContext, 'emit' | 'signal'>;
  spec: SdpaSpec;
  sdpa: SdpaProcesses;
}

/** Times SDPA on every shape in every mode, its backends in turns. Errors: the signal's reason. */
export async function measureSdpaAlone(parts: SdpaAlone): Promise<SdpaBenchmark[]> {
  const { job, spec } = parts;
  const steps = spec.shapes.length * spec.modes.length;
  job.emit({
    case: 'phaseStarted',
    value: create(PhaseStartedSchema, { phase: Phase.BENCHMARK, variant: 'SDPA', steps }),
  });
  const results: SdpaBenchmark[] = [];
  for (const shape of spec.shapes) {
    const opened = await openShape(parts, shape);
    for (const mode of spec.modes) {
      if ('turn' in opened) await takeSamples(opened, mode, spec.protocol.sampling);
      const result = resultOf(parts, { shape, mode, opened });
      job.emit({ case: 'sdpaBenchmark', value: result });
      results.push(result);
    }
  }
  return results;
}

function openShape({ job, spec, sdpa }: SdpaAlone, shape: Shape): Promise<SdpaShape | { missing: string }> {
  const live = new LiveSamples({ job, device: spec.device, shape, protocol: spec.protocol.sampling });
  return sdpa.openShape(attentionCase(shape, spec.dtype), {
    modes: spec.modes,
    backends: spec.backends,
    signal: job.signal,
    onSamples: (mode, subject, samplesUs) => live.add({ mode, subject, samplesUs, warmUp: false }),
  });
}

/** Takes turns until every backend's interval is narrow, the maximum of samples is reached, or the time is over. */
async function takeSamples(shape: SdpaShape, mode: TimingModeName, protocol: SamplingProtocol): Promise<void> {
  const warmUpUntil = performance.now() + 1000 * Math.min(WARM_UP_SECONDS, protocol.maxSeconds);
  while (shape.failure === undefined && performance.now() < warmUpUntil) await shape.turn(mode);
  shape.restart(mode);
  const until = performance.now() + 1000 * protocol.maxSeconds;
  let lookAt = protocol.minSamples;
  do {
    await shape.turn(mode);
    const all = shape.samples(mode);
    const fewest = Math.min(...all.map(({ length }) => length));
    if (fewest >= protocol.maxSamples) return;
    if (fewest < lookAt) continue;
    if (all.every((samplesUs) => isNarrow(samplesUs, protocol))) return;
    lookAt = Math.ceil(fewest * LOOK_AGAIN_AFTER);
  } while (shape.failure === undefined && performance.now() < until);
}

function isNarrow(samplesUs: readonly number[], { targetRelativeHalfWidth }: SamplingProtocol): boolean {
  const { low, high } = medianInterval(samplesUs);
  return (high - low) / (high + low) <= targetRelativeHalfWidth;
}

interface Opened {
  shape: Shape;
  mode: TimingModeName;
  opened: SdpaShape | { missing: string };
}

function resultOf({ spec }: SdpaAlone, { shape, mode, opened }: Opened): SdpaBenchmark {
  const { dtype } = spec;
  const { flops, bytes } = attentionCase(shape, dtype);
  const work = { flops, bytes };
  return create(SdpaBenchmarkSchema, {
    shape,
    mode: TIMING_MODES[mode],
    ...work,
    ...('turn' in opened
      ? {
          backends: withRates(opened.alone(mode), spec.device, { ...work, dtype }),
          missing: opened.missing(mode) ?? '',
        }
      : { missing: opened.missing }),
  });
}

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

/** Adds SDPA's rates, computed from the FLOPs and bytes that the case requires. */
export function withRates(results: SdpaResult[], device: Device, work: Work): SdpaResult[] {
  return results.map((result) => ({
    ...result,
    ...ratesOf(device, { seconds: (result.latency?.p50Us ?? 0) / 1e6, ...work }),
  }));
}

interface TimedWork extends Work {
  seconds: number;
}
