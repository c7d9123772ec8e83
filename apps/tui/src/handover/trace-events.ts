/** A job's spans as trace events for Perfetto and chrome://tracing, with tracks for queue, device and compilers. */
import type { JobEvent } from '@flashcore/shared/contract';
import { jobSpans } from '@flashcore/shared/trace';

const PROCESS = 1;

export function traceOf(events: readonly JobEvent[]): unknown {
  const spans = jobSpans(events);
  const tracks = [...new Set(spans.map(({ track }) => track))];
  return {
    displayTimeUnit: 'ms',
    traceEvents: [
      named('process_name', 0, 'flashcore runner'),
      ...tracks.map((track, index) => named('thread_name', index + 1, track)),
      ...spans.map(({ kind, name, fromUs, untilUs, track, attributes }) => ({
        ph: 'X',
        name,
        cat: kind,
        ts: fromUs,
        dur: untilUs - fromUs,
        pid: PROCESS,
        tid: tracks.indexOf(track) + 1,
        args: attributes,
      })),
    ],
  };
}

const named = (kind: string, track: number, name: string): unknown => ({
  ph: 'M',
  name: kind,
  pid: PROCESS,
  tid: track,
  args: { name },
});
