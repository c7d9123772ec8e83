/** A job's events as trace events, which Perfetto and chrome://tracing open: phases on the device's track. */
import { type JobEvent, Phase } from '@flashcore/shared/contract';

interface Span {
  readonly name: string;
  readonly category: string;
  readonly fromUs: number;
  readonly args: Record<string, string | number>;
}

const PROCESS = 1;
const JOB_TRACK = 1;
const PHASE_TRACK = 2;

export function traceOf(events: readonly JobEvent[]): unknown {
  const first = events[0];
  if (!first) return { displayTimeUnit: 'ms', traceEvents: [] };
  const spans: unknown[] = [];
  const close = (span: Span | undefined, track: number, untilUs: number): void => {
    if (span) spans.push(complete(span, track, untilUs));
  };
  let phase: Span | undefined;
  let state: Span = { name: 'waits for the device', category: 'job', fromUs: usOf(first), args: { job: first.job } };
  for (const event of events) {
    const at = usOf(event);
    const { case: kind, value } = event.payload;
    if (kind === 'started') {
      close(state, JOB_TRACK, at);
      state = { name: 'has the device', category: 'job', fromUs: at, args: { job: event.job } };
    } else if (kind === 'phaseStarted') {
      close(phase, PHASE_TRACK, at);
      const name = Phase[value.phase].toLowerCase();
      phase = { name, category: 'phase', fromUs: at, args: { variant: value.variant, steps: value.steps } };
    } else if (kind === 'benchmarkProgress' || kind === 'caseResult' || kind === 'benchmarkResult') {
      spans.push({ ph: 'i', s: 't', name: kind, cat: 'progress', ts: at, pid: PROCESS, tid: PHASE_TRACK, args: {} });
    } else if (kind === 'finished') {
      close(phase, PHASE_TRACK, at);
      phase = undefined;
      close(state, JOB_TRACK, at);
    }
  }
  return {
    displayTimeUnit: 'ms',
    traceEvents: [
      named('process_name', 0, 'flashcore runner'),
      named('thread_name', JOB_TRACK, 'job'),
      named('thread_name', PHASE_TRACK, 'phases'),
      ...spans,
    ],
  };
}

const usOf = ({ time }: JobEvent): number => Number(time?.seconds ?? 0) * 1e6 + (time?.nanos ?? 0) / 1e3;
const complete = ({ name, category, fromUs, args }: Span, track: number, untilUs: number): unknown => ({
  ph: 'X',
  name,
  cat: category,
  ts: fromUs,
  dur: untilUs - fromUs,
  pid: PROCESS,
  tid: track,
  args,
});
const named = (kind: string, track: number, name: string): unknown => ({
  ph: 'M',
  name: kind,
  pid: PROCESS,
  tid: track,
  args: { name },
});
