import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import type { JobOptions } from '@flashcore/shared/contract';
import { parseTraceParent } from '@flashcore/shared/trace';
import type { JobMethod, JobRequests } from '../jobs/job-context.ts';
import { ROLE_WEIGHTS } from '../access/roles.ts';
import { requestDigest } from '../jobs/request-digest.ts';
import type { StreamHandler } from './call.ts';
import { TRACEPARENT } from './trace-parent.ts';
import type { Services } from './services.ts';
import { checkJobOptions } from './validate/job-options.ts';
import { Violations } from './validate/violations.ts';

export interface JobRpc<Method extends JobMethod, Schema extends DescMessage> {
  method: Method;
  schema: Schema;
  /** Checks the whole request except its options. */
  validate: (request: JobRequests[Method], violations: Violations) => void;
  /** A repeated request restarts a job that the runner's end interrupted. */
  resumable?: boolean;
}

/**
 * The handler of an RPC that starts a job and streams its stored events until it ends. The job continues if the client
 * leaves.
 */
export function startsJob<Method extends JobMethod, Schema extends DescMessage>(
  { method, schema, validate, resumable = false }: JobRpc<Method, Schema>,
  { jobs, planner, quotas, ownerOf }: Services,
): StreamHandler<JobRequests[Method] & MessageShape<Schema> & { options?: JobOptions | undefined }, Uint8Array> {
  return async function* start(request, { signal, caller, traceparent }) {
    const violations = new Violations();
    const limits = checkJobOptions(request.options, violations);
    validate(request, violations);
    violations.throwIfAny();
    const restart = request.options?.restartInterrupted ?? false;
    if (request.options) {
      // The same id in upper case, or a request to restart, counts as the same request.
      request.options.requestId = limits.requestId;
      request.options.restartInterrupted = false;
    }
    await planner.prepare();
    const job = jobs.start({
      ...limits,
      labels: withTraceParent(limits.labels, traceparent),
      owner: ownerOf(limits.requestId) ?? caller.name,
      weight: ROLE_WEIGHTS[caller.role],
      resumable: resumable || restart,
      maxJobsOfOwner: quotas.maxJobs(caller),
      maxDeviceSecondsOfOwner: quotas.maxDeviceSeconds(caller),
      requestDigest: requestDigest(method, schema, request),
      plan: (load) => planner.planJob(method, request, load),
    });
    yield* jobs.watch(job.name, { afterSequence: 0, signal });
  };
}

/** Length in every version; we do not read what later versions append (W3C Trace Context, section 3.2.2). */
const TRACEPARENT_CHARACTERS = 55;

/** A client's label of that name wins; an invalid trace context is ignored, as the standard requires. */
const withTraceParent = (labels: Record<string, string>, text: string | undefined): Record<string, string> =>
  text === undefined || parseTraceParent(text) === undefined
    ? labels
    : { [TRACEPARENT]: text.slice(0, TRACEPARENT_CHARACTERS), ...labels };
