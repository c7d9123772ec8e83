import { create } from '@bufbuild/protobuf';
import { BenchmarkProgressSchema, type Device, type Shape } from '@flashcore/shared/contract';
import { describe, histogram } from '@flashcore/shared/statistics';
import type { SamplingProtocol, TimingModeName } from '../../worker/messages/measuring.ts';
import type { JobContext } from '../jobs/job-context.ts';
import { expectedSamples } from './expected-samples.ts';
import { MODES } from './timing-modes.ts';

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
 * Streams samples of the modes, of the candidate and of the alternatives timed in turns with it, with running
 * statistics.
 */
export class LiveSamples {
  readonly #of: LiveShape;
  readonly #subjects = new Map<string, SubjectSamples>();

  constructor(of: LiveShape) {
    this.#of = of;
  }

  /** A sample of 0 is one that was dropped. */
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
        mode: MODES[mode],
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
