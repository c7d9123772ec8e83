import { create } from '@bufbuild/protobuf';
import type { Client } from '@grpc/grpc-js';
import { errorFromStatus, hasErrorDetails } from '../contract/error-status.ts';
import type { JobEvent } from '../generated/flashcore/runner/v1/job_event_pb.js';
import { WatchJobRequestSchema } from '../generated/flashcore/runner/v1/service_pb.js';
import { callStreaming } from './calls.ts';
import { isServiceError, ResumePolicy, type ResumeOptions } from './resume.ts';

export interface WatchOptions extends ResumeOptions {
  /** Number of the last event already seen; default 0: from the first. */
  afterSequence?: bigint | number | undefined;
  /** Called with the number of the first event still kept if the requested events are gone. */
  onExpired?: ((first: bigint) => void) | undefined;
}

/** The events of a job. Ending the iteration leaves the job running. */
export type JobEvents = AsyncGenerator<JobEvent, void, undefined>;

/** A channel, and the name of its runner in texts. */
export interface Link {
  readonly channel: Client;
  readonly address: string;
}

/** The source of a job's events: a call that starts the job, or the job's name. */
interface EventsFrom {
  begin: ((onHeaders: () => void) => AsyncGenerator<{ event?: JobEvent }>) | undefined;
  name: string | undefined;
  afterSequence: bigint;
}

/** Yields a job's events until `finished`, each once and in order, however often the stream drops. */
export async function* jobEvents({ channel, address }: Link, from: EventsFrom, options: WatchOptions): JobEvents {
  const policy = new ResumePolicy(channel, address, options);
  const onHeaders = () => policy.connected();
  let { name, afterSequence } = from;
  for (;;) {
    let cause: unknown;
    try {
      const responses =
        name === undefined
          ? from.begin!(onHeaders)
          : callStreaming(channel, 'watchJob', create(WatchJobRequestSchema, { name, afterSequence }), {
              signal: options.signal,
              onHeaders,
            });
      for await (const { event } of responses) {
        if (event === undefined || event.sequence <= afterSequence) continue;
        // Events are missing, so this asks again from the last event that came in order.
        if (event.sequence !== afterSequence + 1n) break;
        name = event.job;
        afterSequence = event.sequence;
        policy.progress();
        yield event;
        if (event.payload.case === 'finished') return;
      }
    } catch (error) {
      cause = error;
    }
    const first = firstKept(cause);
    // The first kept event must come after the last one seen; otherwise this loop would ask the same question forever.
    if (first === undefined || first - 1n <= afterSequence || !options.onExpired) {
      await policy.waitAfter(cause, name ?? 'a new job');
      continue;
    }
    options.onExpired(first);
    afterSequence = first - 1n;
  }
}

/** Number of the first event that the runner still keeps, if a stream asked for earlier ones. */
function firstKept(cause: unknown): bigint | undefined {
  if (!isServiceError(cause) || !hasErrorDetails(cause)) return undefined;
  const { reason, metadata } = errorFromStatus(cause);
  return reason === 'EVENTS_EXPIRED' && /^[1-9]\d*$/.test(metadata['first'] ?? '')
    ? BigInt(metadata['first']!)
    : undefined;
}
