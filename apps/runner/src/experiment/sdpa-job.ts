import { hostname } from 'node:os';
import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  FlashcoreError,
  JobResultSchema,
  Outcome,
  type JobResult,
  type SdpaBenchmark,
  timingModeName,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import type { DeviceRuntime } from '../device/device-runtime.ts';
import type { JobOutcome } from '../jobs/job-context.ts';
import { measureSdpaAlone, type SdpaAlone } from '../phases/sdpa-alone.ts';
import { PROTOCOL_VERSION } from '../spec/benchmark-protocol.ts';
import { costOf } from './cost.ts';
import type { RunnerIdentity } from './provenance.ts';

export interface SdpaJob extends SdpaAlone {
  /** Reads the device's state while the job has it. */
  conditions: () => ReturnType<DeviceRuntime['conditions']>;
  runner: RunnerIdentity;
}

/**
 * The body of a job that measures SDPA without a kernel. Errors: PROFILER_UNAVAILABLE if nothing could be measured, the
 * signal's reason.
 */
export async function runSdpaJob(parts: SdpaJob): Promise<JobOutcome> {
  const { spec, runner, conditions } = parts;
  const startTime = new Date();
  const started = performance.now();
  const found = await conditions();
  const sdpaBenchmarks = await measureSdpaAlone(parts);
  const versions = sdpaBenchmarks.flatMap(({ backends }) => backends.map(({ version }) => version));
  if (versions.length === 0)
    throw new FlashcoreError(
      'PROFILER_UNAVAILABLE',
      { device_id: spec.device.deviceId },
      `SDPA was not measured on ${spec.device.deviceId}: ${sdpaBenchmarks[0]?.missing ?? 'no shape was asked for'}`,
    );
  const deviceSeconds = (performance.now() - started) / 1000;
  const result = create(JobResultSchema, {
    provenance: {
      runnerVersion: runner.version,
      runnerBuildId: runner.buildId,
      device: spec.device,
      hostName: hostname(),
      tools: [{ name: 'PyTorch', version: versions[0]!.replace(/^PyTorch /, '') }],
      time: timestampFromDate(startTime),
      protocol: PROTOCOL_VERSION,
      dtype: spec.dtype,
      conditions: found,
    },
    sdpaBenchmarks,
    deviceSeconds,
    ...costOf(spec.device, deviceSeconds, runner.rates),
  });
  return { outcome: Outcome.PASSED, summary: summaryOf(result), result };
}

/** The fastest backend for each shape and mode, for example "2x8x512x64 hot: sdpa/cudnn 11.30 us; …". */
function summaryOf({ sdpaBenchmarks }: JobResult): string {
  const text = ({ shape, mode, backends: [fastest], missing }: SdpaBenchmark): string =>
    `${shape ? formatShape(shape) : ''} ${timingModeName(mode) ?? ''}: ${fastest?.latency ? `${fastest.name} ${fastest.latency.p50Us.toFixed(2)} us` : `not measured, ${missing}`}`;
  return sdpaBenchmarks.map(text).join('; ');
}
