/**
 * A real gRPC server with one job that prints compiler lines at an adjustable rate. The budget test loads fa-tui with
 * it.
 */
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { API_VERSION, SERVER_OPTIONS, serviceDefinition, type RpcHandlers } from '@flashcore/shared/client';
import {
  JobKind,
  JobState,
  Phase,
  GetHostResponseSchema,
  JobEventSchema,
  JobSchema,
  ListExperimentsResponseSchema,
  ListJobsResponseSchema,
  ListKernelsResponseSchema,
  type JobEvent,
} from '@flashcore/shared/contract';
import { Server, ServerCredentials, type ServerWritableStream } from '@grpc/grpc-js';
import { EMULATOR, SAMPLE_JOB, eventsOf } from './sample-job.ts';

const BATCH_EVERY_MS = 10;

export interface FloodServer {
  readonly address: string;
  /** Lines per second; can be changed at any time. */
  rate: number;
  /** True if a client is watching the job. */
  readonly watched: boolean;
  /** Number of lines sent so far. */
  readonly sent: number;
  stop(): void;
}

const WORDS = [
  'ptxas info    : Compiling entry function',
  'warning: variable was declared but never referenced',
  'Used 168 registers, used 1 barriers, 99840 bytes smem',
  'flashcore_v6.cu(87): note: in instantiation of',
];

const JOB = create(JobSchema, {
  name: SAMPLE_JOB,
  kind: JobKind.EXPERIMENT,
  state: JobState.RUNNING,
  label: 'flashcore_v6 USE_WMMA=1',
  kernelId: 'flashcore_v6',
  createTime: timestampFromMs(Date.now()),
});

/** Events of a job before its compiler prints anything. */
const BUILD_BEGINS: JobEvent[] = eventsOf([
  { case: 'created', value: { job: JOB } },
  { case: 'started', value: { device: EMULATOR } },
  { case: 'phaseStarted', value: { phase: Phase.BUILD, variant: 'USE_WMMA=1', steps: 2 } },
]);

const lineOf = (sequence: number): JobEvent =>
  create(JobEventSchema, {
    job: SAMPLE_JOB,
    sequence: BigInt(sequence),
    time: timestampFromMs(Date.now()),
    payload: {
      case: 'logLine',
      value: { source: 'nvcc', text: `${sequence} ${WORDS[sequence % WORDS.length]} ${'x'.repeat(sequence % 40)}` },
    },
  });

/** `prelude` contains the job's first events, which are sent without a pause. */
export async function floodServer({
  prelude = BUILD_BEGINS,
}: { prelude?: readonly JobEvent[] } = {}): Promise<FloodServer> {
  const server = new Server(SERVER_OPTIONS);
  let watched = false;
  let sent = 0;
  const flood: { rate: number } = { rate: 0 };
  const pour = async (call: ServerWritableStream<{ afterSequence: bigint }, unknown>): Promise<void> => {
    watched = true;
    let [sequence, owed] = [Number(call.request.afterSequence), prelude.length];
    while (!call.cancelled) {
      for (; owed >= 1 && !call.cancelled; owed--) {
        sequence += 1;
        sent = Math.max(0, sequence - prelude.length);
        if (!call.write({ event: prelude[sequence - 1] ?? lineOf(sequence) }))
          await new Promise((resolve) => call.once('drain', resolve));
      }
      const before = performance.now();
      // eslint-disable-next-line flashcore/no-fixed-wait -- lines at a rate
      await new Promise((resolve) => setTimeout(resolve, BATCH_EVERY_MS));
      owed += (flood.rate * (performance.now() - before)) / 1000;
    }
  };
  server.addService(serviceDefinition, {
    getHost: (_call, done) =>
      done(
        null,
        create(GetHostResponseSchema, { host: { apiVersion: API_VERSION, devices: [EMULATOR], activeJobs: 1 } }),
      ),
    listJobs: (_call, done) => done(null, create(ListJobsResponseSchema, { jobs: [JOB] })),
    listKernels: (_call, done) => done(null, create(ListKernelsResponseSchema)),
    listExperiments: (_call, done) => done(null, create(ListExperimentsResponseSchema)),
    watchJob: (call) => void pour(call),
  } satisfies Partial<RpcHandlers>);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  return {
    address: `127.0.0.1:${port}`,
    get rate() {
      return flood.rate;
    },
    set rate(rate: number) {
      flood.rate = rate;
    },
    get watched() {
      return watched;
    },
    get sent() {
      return sent;
    },
    stop: () => server.forceShutdown(),
  };
}
