/**
 * A client of a flashcore runner that uses only the .proto files. It starts a job, prints its events, and resumes the
 * stream if it was cut.
 *
 *   npm install && node client.js [--address 127.0.0.1:50051] [--kernel flashcore_v6] [build|experiment] [--cut-after N]
 *
 * --cut-after drops the stream after N events, as a lost connection would. Exit code: 0 passed, 1 a check failed, 3 the
 * runner could not do it.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import protobuf from 'protobufjs';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    address: { type: 'string', default: '127.0.0.1:50051' },
    kernel: { type: 'string', default: 'flashcore_v6' },
    protos: { type: 'string', default: fileURLToPath(new URL('../../proto', import.meta.url)) },
    'cut-after': { type: 'string', default: '0' },
  },
});
const [what = 'build'] = positionals;
/** How often to try to reach a runner that does not answer, once per second. */
const RECONNECTS = 30;

const definition = loadSync('flashcore/runner/v1/service.proto', {
  includeDirs: [options.protos],
  longs: Number,
  enums: String,
  defaults: true,
  oneofs: true,
});
const { KernelRunnerService } = grpc.loadPackageDefinition(definition).flashcore.runner.v1;
const runner = new KernelRunnerService(options.address, grpc.credentials.createInsecure());

// The same request_id means the same job, so sending a request again does not start a second job.
const common = { kernel: { kernelId: options.kernel }, options: { requestId: randomUUID() } };
const shapes = [{ batch: 1, heads: 4, sequenceLength: 128, headDim: 64 }];
const starts = {
  build: () => runner.build(common),
  experiment: () =>
    runner.runExperiment({
      ...common,
      noFallback: true,
      verify: { shapes, seedCount: 1 },
      benchmark: { shapes, protocol: { maxSeconds: 0.5 } },
      profile: { shape: shapes[0] },
    }),
};

if (!Object.hasOwn(starts, what)) {
  console.error(`unknown job ${JSON.stringify(what)}: must be ${Object.keys(starts).join(' or ')}`);
  process.exit(2);
}
try {
  process.exitCode = await follow(starts[what], Number(options['cut-after']));
} catch (error) {
  console.error(`error: ${reasonOf(error)}${error.details ?? error.message}`);
  process.exitCode = 3;
} finally {
  runner.close();
}

/** Prints a job's events until the job ends, over as many streams as that takes. */
async function follow(start, cutAfter) {
  let job = '';
  let last = 0;
  for (let tries = 0; ;) {
    const stream = job === '' ? start() : runner.watchJob({ name: job, afterSequence: last });
    try {
      for await (const { event } of stream) {
        tries = 0;
        if (event.sequence !== last + 1) throw new Error(`event ${event.sequence} came after ${last}`);
        job = event.job;
        last = event.sequence;
        console.log(`${String(last).padStart(4)} ${textOf(event)}`);
        if (event.payload === 'finished') return exitCodeOf(event.finished);
        if (last === cutAfter) break;
      }
      console.log('     the stream was cut: watching again');
    } catch (error) {
      if (error.code !== grpc.status.UNAVAILABLE || ++tries > RECONNECTS) throw error;
      console.log('     the runner is away: trying again');
      await sleep(1_000);
    } finally {
      stream.cancel();
    }
  }
}

/** An event as one line: its name, and the part of it that a reader wants. */
function textOf(event) {
  const value = event[event.payload];
  switch (event.payload) {
    case 'created':
      return `created ${event.job}`;
    case 'logLine':
      return `log ${value.source}: ${value.text}`;
    case 'finished':
      return `finished ${value.outcome}: ${value.summary}`;
    default:
      return event.payload;
  }
}

function exitCodeOf({ outcome, error }) {
  if (error) return 3;
  return outcome === 'OUTCOME_PASSED' ? 0 : 1;
}

/** The reason of a gRPC error, from the google.rpc.ErrorInfo in its details; "" if there is none. */
function reasonOf(error) {
  const [bytes] = error.metadata?.get('grpc-status-details-bin') ?? [];
  if (!bytes) return '';
  const { root } = protobuf.parse(`syntax = "proto3";
    message Any { string type_url = 1; bytes value = 2; }
    message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
    message ErrorInfo { string reason = 1; string domain = 2; }`);
  const { details } = root.lookupType('Status').decode(bytes);
  const info = details.find(({ typeUrl }) => typeUrl.endsWith('/google.rpc.ErrorInfo'));
  return info ? `${root.lookupType('ErrorInfo').decode(info.value).reason}: ` : '';
}
