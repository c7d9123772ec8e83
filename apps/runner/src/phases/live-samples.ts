import { create } from '@bufbuild/protobuf';
import {
  BenchmarkProgressSchema,
  type Device,
  type Shape,
  type LatencyStatistics,
  TIMING_MODES,
} from '@flashcore/shared/contract';
import { describe, histogram } from '@flashcore/shared/statistics';
import type { SamplingProtocol, TimingModeName } from '../../worker/messages/measuring.ts';
import type { JobContext } from '../jobs/job-context.ts';

/** Each subject's samples are sent about four times a second. */
const TELL_EVERY_MS = 250;

/** The samples so far of one mode and subject. */
interface SubjectSamples {
  readonly mode: TimingModeName;
  readonly subject: string;
  readonly startedAt: number;
  readonly all: number[];
  pending: number[];
  toldAt: number;
}

/** The shape whose samples are sent. */
export interface LiveShape {
  readonly job: Pick<JobContext, 'emit'>;
  readonly device: Device;
  readonly shape: Shape;
  readonly protocol: SamplingProtocol;
}

const newSubject = (mode: TimingModeName, subject: string): SubjectSamples => ({
  mode,
  subject,
  startedAt: performance.now(),
  all: [],
  pending: [],
  toldAt: -Infinity,
});

interface ToldSamples {
  mode: TimingModeName;
  subject: string;
  samplesUs: number[];
  warmUp: boolean;
}

/** New samples of a mode. `subject`: "candidate", or an alternative timed with it, for example "sdpa/flash". */
export interface NewSamples {
  mode: TimingModeName;
  subject: string;
  samplesUs: Iterable<number>;
  warmUp: boolean;
}

/**
 * Streams the samples of each mode with running statistics, for the candidate and for the alternatives that are timed
 * in turns with it.
 */
export class LiveSamples {
  readonly #of: LiveShape;
  readonly #subjects = new Map<string, SubjectSamples>();

  constructor(of: LiveShape) {
    this.#of = of;
  }

  /** A sample of 0 is a dropped sample. */
  add({ mode, subject, samplesUs, warmUp }: NewSamples): void {
    if (warmUp) return this.#tell({ mode, subject, samplesUs: Array.from(samplesUs), warmUp });
    const key = `${mode} ${subject}`;
    const known = this.#subjects.get(key) ?? newSubject(mode, subject);
    this.#subjects.set(key, known);
    known.pending.push(...samplesUs);
    if (performance.now() - known.toldAt >= TELL_EVERY_MS) this.#tellPending(known);
  }

  /** Sends the remaining samples. */
  flush(): void {
    for (const known of this.#subjects.values()) if (known.pending.length > 0) this.#tellPending(known);
  }

  // Throttled: the running interval is a bootstrap, and calculating it delays the next turn of the measurement.
  #tellPending(known: SubjectSamples): void {
    known.all.push(...known.pending.filter((us) => us > 0));
    this.#tell({ mode: known.mode, subject: known.subject, samplesUs: known.pending, warmUp: false }, known);
    known.pending = [];
    known.toldAt = performance.now();
  }

  #tell({ mode, subject, samplesUs, warmUp }: ToldSamples, known?: SubjectSamples): void {
    const all = known?.all ?? [];
    const latency = all.length > 0 ? describe(all) : undefined;
    const { job, device, shape, protocol } = this.#of;
    job.emit({
      case: 'benchmarkProgress',
      value: create(BenchmarkProgressSchema, {
        shape,
        mode: TIMING_MODES[mode],
        subject,
        samplesUs,
        simulated: device.simulated,
        warmUp,
        ...(latency !== undefined && { latency, histogram: histogram(all) }),
        ...(known !== undefined &&
          latency !== undefined && {
            expectedSamples: expectedSamples(latency, performance.now() - known.startedAt, protocol),
          }),
      }),
    });
  }
}

type StopRule = Pick<SamplingProtocol, 'minSamples' | 'maxSamples' | 'maxSeconds' | 'targetRelativeHalfWidth'>;

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
