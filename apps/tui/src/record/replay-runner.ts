/** A runner that has a single recorded job and sends its events again. */
import { clone, create } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { RunnerClient } from '@flashcore/shared/client';
import {
  JobState,
  Outcome,
  CancelJobResponseSchema,
  FlashcoreError,
  GetHostResponseSchema,
  GetJobResponseSchema,
  GetLeaderboardResponseSchema,
  JobSchema,
  ListChampionsResponseSchema,
  ListExperimentsResponseSchema,
  ListJobsResponseSchema,
  ListKernelsResponseSchema,
  type GetJobResponse,
  type Job,
  type JobEvent,
} from '@flashcore/shared/contract';
import type { RunnerPort } from '../session/runner-port.ts';

type ReplayRunner = RunnerPort & Pick<RunnerClient, 'getJob'>;

/** `speed` is relative to the recording; 0 means without pauses. */
export function replayRunner(events: readonly JobEvent[], { speed }: { speed: number }): ReplayRunner {
  const recorded = toldBy(events);
  const job = recorded.job!;
  const refuse = (): never => {
    throw new FlashcoreError('DRAINING', {}, 'A replay starts no jobs: this is a recording');
  };
  const refuseDecision = (): Promise<never> =>
    Promise.reject(
      new FlashcoreError('NOT_ACCEPTABLE', {}, 'Nothing is decided about a recording: ask the runner that has the job'),
    );
  async function* tell(after: number, signal?: AbortSignal): AsyncGenerator<JobEvent, void, undefined> {
    let before = timeOf(events[0]);
    for (const event of events) {
      if (Number(event.sequence) <= after) continue;
      if (speed > 0) await pause((timeOf(event) - before) / speed, signal);
      signal?.throwIfAborted();
      before = timeOf(event);
      yield event;
    }
  }
  const started = events.find(({ payload }) => payload.case === 'started')?.payload;
  const device = started?.case === 'started' ? started.value.device : undefined;
  return {
    getHost: () =>
      Promise.resolve(
        create(GetHostResponseSchema, {
          host: { hostName: 'a recording', apiVersion: 'v1', devices: device === undefined ? [] : [device] },
        }),
      ),
    getJob: () => Promise.resolve(recorded),
    listJobs: () => Promise.resolve(create(ListJobsResponseSchema, { jobs: [job] })),
    listKernels: () => Promise.resolve(create(ListKernelsResponseSchema)),
    listExperiments: () => Promise.resolve(create(ListExperimentsResponseSchema)),
    getLeaderboard: () =>
      Promise.resolve(create(GetLeaderboardResponseSchema, { emptyReason: 'A recording has no leaderboard' })),
    cancelJob: () => Promise.resolve(create(CancelJobResponseSchema, { job })),
    readArtifact: refuse,
    uploadFolder: refuse,
    accept: refuseDecision,
    reject: refuseDecision,
    undo: refuseDecision,
    listChampions: () => Promise.resolve(create(ListChampionsResponseSchema)),
    start: refuse,
    watch: (_name, { afterSequence = 0, signal, onExpired } = {}) => {
      // The first events may already have been missing when the recording was made.
      const first = events[0]?.sequence ?? 1n;
      if (first > BigInt(afterSequence) + 1n) onExpired?.(first);
      return tell(Number(afterSequence), signal);
    },
  };
}

const timeOf = (event: JobEvent | undefined): number => (event?.time === undefined ? 0 : timestampMs(event.time));

function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  if (milliseconds <= 0) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}

/** The response of GetJob, rebuilt from a job's events. Only the first and the last event are needed. */
export function toldBy(events: readonly JobEvent[]): GetJobResponse {
  const end = events.at(-1)?.payload;
  const result = end?.case === 'finished' ? end.value.result : undefined;
  return create(GetJobResponseSchema, { job: endedJob(events[0], events.at(-1)), ...(result && { result }) });
}

/** The job's state at its last event. */
function endedJob(first: JobEvent | undefined, last: JobEvent | undefined): Job {
  const created = first?.payload.case === 'created' ? first.payload.value.job : undefined;
  const end = last?.payload.case === 'finished' ? last.payload.value : undefined;
  const job = Object.assign(clone(JobSchema, created ?? create(JobSchema)), {
    name: first?.job ?? '',
    state: end === undefined ? JobState.RUNNING : JobState.ENDED,
    outcome: end?.outcome ?? Outcome.UNSPECIFIED,
    summary: end?.summary ?? '',
  });
  if (first?.time !== undefined) job.startTime = first.time;
  if (end !== undefined && last?.time !== undefined) job.endTime = last.time;
  return job;
}
