/**
 * The timeline of a job as spans: the wait for its device, the device or the attempts on a cluster's nodes, phases,
 * compilers, cases, blocks of timing.
 */
import { Outcome, Phase, TimingMode, type AttemptStarted, type JobEvent } from '../contract/index.ts';
import { formatShape } from '../kernels/index.ts';

type SpanKind = 'job' | 'wait' | 'device' | 'phase' | 'compile' | 'case' | 'timing';

export interface JobSpan {
  readonly kind: SpanKind;
  readonly name: string;
  /** Microseconds since 1970. */
  readonly fromUs: number;
  readonly untilUs: number;
  /** Place of the span: "queue", a device, or a compiler. */
  readonly track: string;
  /** Index of the enclosing span; undefined for the job's span, which is the first. */
  readonly parent: number | undefined;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** Whether the runner could not find out the result. */
  readonly failed: boolean;
}

/** The spans of a job; none without events. A running job's span ends with its last event. */
export function jobSpans(events: readonly JobEvent[]): JobSpan[] {
  const spans = new SpanList(events);
  for (const event of events) spans.take(event);
  return spans.ended();
}

const QUEUE = 'queue';

type Draft = { -readonly [Key in keyof JobSpan]: JobSpan[Key] };

type NewSpan = Pick<JobSpan, 'kind' | 'name' | 'fromUs'> & Partial<Omit<JobSpan, 'failed'>>;

/** Spans in the order of their start. An open span ends when the next one starts. */
class SpanList {
  readonly #spans: Draft[] = [];
  readonly #lastUs: number;
  #device = QUEUE;
  #holder: number | undefined;
  /** Whether the device is held by an attempt on a node. */
  #attempted = false;
  /** Time of the previous event. */
  #beforeUs = 0;
  #phase: number | undefined;
  /** The timing block that is still open, and a key for the build that it times. */
  #timing: { index: number; key: string } | undefined;

  constructor(events: readonly JobEvent[]) {
    const [first] = events;
    this.#lastUs = events.length === 0 ? 0 : usOf(events.at(-1)!);
    if (!first) return;
    const created = first.payload.case === 'created' ? first.payload.value.job : undefined;
    const about = { job: first.job, kernel: created?.kernelId ?? '', label: created?.label ?? '' };
    this.#add({ kind: 'job', name: created?.label || first.job, fromUs: usOf(first), track: QUEUE, attributes: about });
    this.#holder = this.#add({
      kind: 'wait',
      name: 'waits for the device',
      fromUs: usOf(first),
      track: QUEUE,
      parent: 0,
    });
  }

  take(event: JobEvent): void {
    const at = usOf(event);
    this.#takeAt(event, at);
    this.#beforeUs = at;
  }

  #takeAt(event: JobEvent, at: number): void {
    const { case: kind, value } = event.payload;
    switch (kind) {
      case 'started':
        this.#close(this.#holder, at);
        this.#device = value.device?.deviceId || 'device';
        this.#holder = this.#add({
          kind: 'device',
          name: 'has the device',
          fromUs: at,
          parent: 0,
          attributes: { device: value.device?.name ?? '', simulated: value.device?.simulated ?? false },
        });
        return;
      case 'attemptStarted':
        this.#attempt(value, at);
        return;
      case 'phaseStarted':
        this.#closePhase(at);
        this.#phase = this.#add({
          kind: 'phase',
          name: (Phase[value.phase] ?? 'phase').toLowerCase(),
          fromUs: at,
          parent: this.#holder,
          attributes: { variant: value.variant, steps: value.steps },
        });
        return;
      case 'buildResult':
        for (const run of value.runs.filter(({ cacheHit }) => !cacheHit))
          // Compilers run in parallel from the start of the phase.
          this.#add({
            kind: 'compile',
            name: `${run.compiler} ${run.target}`,
            fromUs: this.#phaseStart(at),
            untilUs: this.#phaseStart(at) + run.seconds * 1e6,
            track: run.compiler,
            parent: this.#phase,
            attributes: { exit_code: run.exitCode },
          });
        return;
      case 'caseResult':
        this.#add({
          kind: 'case',
          name: value.shape ? formatShape(value.shape) : 'case',
          fromUs: Math.max(this.#phaseStart(at), at - value.seconds * 1e6),
          untilUs: at,
          parent: this.#phase,
          attributes: { seeds: value.seeds },
        });
        return;
      case 'benchmarkProgress': {
        const shape = value.shape ? formatShape(value.shape) : '';
        this.#time(
          `${shape} ${value.mode === TimingMode.COLD ? 'cold' : 'hot'} ${value.subject}${value.warmUp ? ', warm-up' : ''}`,
          at,
        );
        return;
      }
      case 'comparisonProgress': {
        const shape = value.shape ? formatShape(value.shape) : '';
        this.#time(`${shape} ${value.selfCheck ? 'champion against itself' : 'champion and candidate'}`, at);
        return;
      }
      case 'finished':
        this.#closePhase(at);
        this.#close(this.#holder, at);
        this.#close(0, at);
        this.#spans[0]!.failed = value.outcome === Outcome.ERROR || value.outcome === Outcome.INTERRUPTED;
        this.#spans[0]!.attributes = {
          ...this.#spans[0]!.attributes,
          outcome: (Outcome[value.outcome] ?? '').toLowerCase(),
        };
        return;
      default:
    }
  }

  ended(): JobSpan[] {
    return this.#spans;
  }

  /**
   * A cluster node takes the job. If another node had it before, that node's attempt ends at the previous event, the
   * last time it was heard of.
   */
  #attempt({ attempt, node, device, reason }: AttemptStarted, at: number): void {
    const before = this.#holder === undefined ? undefined : this.#spans[this.#holder];
    this.#closePhase(this.#attempted ? this.#beforeUs : at);
    if (before && this.#attempted) {
      before.untilUs = this.#beforeUs;
      before.failed = true;
      before.attributes = { ...before.attributes, lost: reason ?? '' };
      const name = 'lost its lease, waits for another';
      const attributes = { reason: reason ?? '' };
      this.#add({ kind: 'wait', name, fromUs: this.#beforeUs, untilUs: at, track: QUEUE, parent: 0, attributes });
    } else if (before) Object.assign(before, { kind: 'wait', name: 'waits for a pilot', untilUs: at });
    this.#attempted = true;
    this.#device = `attempt ${attempt} on ${node}`;
    this.#holder = this.#add({
      kind: 'device',
      name: this.#device,
      fromUs: at,
      parent: 0,
      attributes: { attempt, node, device: device?.name ?? '', simulated: device?.simulated ?? false },
    });
  }

  /** Consecutive samples of the same subject form one block. It starts when the previous block ended. */
  #time(key: string, at: number): void {
    const last = this.#timing;
    if (last?.key === key) {
      this.#close(last.index, at);
      return;
    }
    const fromUs = last ? this.#spans[last.index]!.untilUs : this.#phaseStart(at);
    const index = this.#add({ kind: 'timing', name: key, fromUs, untilUs: at, parent: this.#phase });
    this.#timing = { index, key };
  }

  #phaseStart(otherwise: number): number {
    return this.#phase === undefined ? otherwise : this.#spans[this.#phase]!.fromUs;
  }

  #closePhase(at: number): void {
    this.#close(this.#phase, at);
    this.#phase = undefined;
    this.#timing = undefined;
  }

  #close(index: number | undefined, at: number): void {
    const span = index === undefined ? undefined : this.#spans[index];
    if (span) span.untilUs = at;
  }

  #add({ track = this.#device, untilUs = this.#lastUs, parent, attributes = {}, ...span }: NewSpan): number {
    this.#spans.push({ ...span, untilUs: Math.max(span.fromUs, untilUs), track, parent, attributes, failed: false });
    return this.#spans.length - 1;
  }
}

const usOf = ({ time }: JobEvent): number => Number(time?.seconds ?? 0) * 1e6 + Math.round((time?.nanos ?? 0) / 1e3);
