import { createHash } from 'node:crypto';
import { type DescMessage, type MessageShape, toJson, type JsonValue } from '@bufbuild/protobuf';
import { KernelRunnerService, type JobOptions } from '@flashcore/shared/contract';
import { parseTraceParent } from '@flashcore/shared/trace';
import type { JobMethod, JobRequests } from '../jobs/job-context.ts';
import { ROLE_WEIGHTS } from '../access/roles.ts';
import type { StreamHandler, Services } from './call.ts';
import { checkKernelReference, checkVariant } from './validate/kernel.ts';
import { checkLabels, Violations } from './validate/violations.ts';
import {
  checkVerifySettings,
  checkBenchmarkSettings,
  checkSdpaAlone,
  checkProfileSettings,
  checkPlan,
  checkShapes,
} from './validate/settings.ts';

interface JobRpc<Method extends JobMethod> {
  /** Checks the whole request except its options. */
  validate: (request: JobRequests[Method], violations: Violations, services: Services) => void;
  /** A repeated request restarts a job that the runner's end interrupted. */
  resumable?: boolean;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const DEFAULT_SECONDS = 3600;
/** A week: every run needs a limit, and a timer of more than 24.8 days would fire at once. */
const MAX_SECONDS = 7 * 24 * 3600;

/** JobOptions with every default filled in. */
interface JobLimits {
  /** In lower case. Empty if the request has none. */
  requestId: string;
  maxQueueSeconds: number;
  maxRunSeconds: number;
  labels: Record<string, string>;
}

/** A UUID in lower case, or empty. */
export function checkRequestId(field: string, requestId: string, violations: Violations): string {
  if (requestId !== '' && !UUID.test(requestId))
    violations.add(field, 'must be a UUID such as 123e4567-e89b-42d3-a456-426614174000, or empty');
  return requestId.toLowerCase();
}

export function checkJobOptions(options: JobOptions | undefined, violations: Violations): JobLimits {
  const { requestId = '', deviceId = '', maxQueueSeconds = 0, maxRunSeconds = 0, labels = {} } = options ?? {};
  checkLabels('options.labels', labels, violations);
  const id = checkRequestId('options.request_id', requestId, violations);
  violations.text('options.device_id', deviceId);
  violations.range('options.max_queue_seconds', maxQueueSeconds, { least: 0, most: MAX_SECONDS, unit: 's' });
  violations.range('options.max_run_seconds', maxRunSeconds, { least: 0, most: MAX_SECONDS, unit: 's' });
  return {
    requestId: id,
    maxQueueSeconds: maxQueueSeconds || DEFAULT_SECONDS,
    maxRunSeconds: maxRunSeconds || DEFAULT_SECONDS,
    labels,
  };
}

/**
 * The handler of an RPC that starts a job and streams its stored events until it ends. The job continues if the client
 * leaves.
 */
const startsJob =
  <Method extends JobMethod>(method: Method, { validate, resumable = false }: JobRpc<Method>) =>
  (services: Services): StreamHandler<JobRequests[Method], Uint8Array> => {
    const { jobs, planner, quotas, ownerOf } = services;
    return async function* start(request, { signal, caller, traceparent }) {
      const violations = new Violations();
      const limits = checkJobOptions(request.options, violations);
      validate(request, violations, services);
      violations.throwIfAny();
      const restart = request.options?.restartInterrupted ?? false;
      if (request.options) {
        // A request stays the same if its id is in upper case or if it also asks for a restart.
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
        requestDigest: requestDigest(method, KernelRunnerService.method[method].input, request),
        plan: (load) => planner.planJob(method, request, load),
      });
      yield* jobs.watch(job.name, { afterSequence: 0, signal });
    };
  };

/** The same in every version; later versions may append fields, which we ignore (W3C Trace Context, section 3.2.2). */
const TRACEPARENT_CHARACTERS = 55;

/** Label of a job whose request had a W3C trace context. */
export const TRACEPARENT = 'traceparent';

/** A client's label of that name wins; an invalid trace context is ignored, as the standard requires. */
const withTraceParent = (labels: Record<string, string>, text: string | undefined): Record<string, string> =>
  text === undefined || parseTraceParent(text) === undefined
    ? labels
    : { [TRACEPARENT]: text.slice(0, TRACEPARENT_CHARACTERS), ...labels };

/** Compiles a kernel. */
export const build = startsJob('build', {
  validate: ({ kernel, variant }, violations) => {
    checkKernelReference(kernel, violations);
    checkVariant(variant, violations);
  },
});

/** Compiles a kernel if necessary, and compares its output with the reference. */
export const verify = startsJob('verify', {
  validate: ({ kernel, variant, settings }, violations) => {
    checkKernelReference(kernel, violations);
    checkVariant(variant, violations);
    checkVerifySettings('settings', settings, violations);
  },
});

/** Compiles a kernel if necessary, checks it on one case, and measures its latency; or SDPA's, without a kernel. */
export const benchmark = startsJob('benchmark', {
  validate: ({ kernel, variant, settings }, violations) => {
    if (kernel || (settings?.sdpaBackends.length ?? 0) === 0) checkKernelReference(kernel, violations);
    else checkSdpaAlone({ variant, settings: settings! }, violations);
    checkVariant(variant, violations);
    checkBenchmarkSettings('settings', settings, violations);
  },
});

/** Compiles a kernel if necessary, and reads hardware counters while it runs. */
export const profile = startsJob('profile', {
  validate: ({ kernel, variant, settings }, violations) => {
    checkKernelReference(kernel, violations);
    checkVariant(variant, violations);
    checkProfileSettings('settings', settings, violations);
  },
});

/** Precheck, build, verification, benchmark, profile, then the gates. */
export const runExperiment = startsJob('runExperiment', {
  validate: (request, violations, { ownerOf }) => {
    checkKernelReference(request.kernel, violations);
    checkVariant(request.variant, violations);
    checkVerifySettings('verify', request.verify, violations);
    checkBenchmarkSettings('benchmark', request.benchmark, violations);
    checkProfileSettings('profile', request.profile, violations);
    checkPlan(request, violations);
    // Whether this runner is a pilot whose gateway sent the request.
    const fromGateway = ownerOf(request.options?.requestId ?? '') !== undefined;
    if (request.assigned && !fromGateway) violations.add('assigned', 'must be unset: a gateway sets it for its pilots');
  },
});

const MAX_TRIALS = 10_000;
const MAX_PARAMETERS = 64;
const MAX_VALUES = 256;
const MAX_SEARCH_SECONDS = 7 * 24 * 3600;
const MAX_USD = 1e6;

/** Searches a kernel's variants for the fastest correct one. */
export const tune = startsJob('tune', {
  resumable: true,
  validate: ({ kernel, variant, shapes, champion, parameters, maxTrials, maxSeconds, maxUsd }, violations) => {
    checkKernelReference(kernel, violations);
    checkVariant(variant, violations);
    checkShapes('shapes', shapes, violations);
    if (champion) {
      checkKernelReference(champion.kernel, violations, 'champion.kernel');
      checkVariant(champion.variant, violations, 'champion.variant');
    }
    violations.count('parameters', parameters, MAX_PARAMETERS);
    parameters.slice(0, MAX_PARAMETERS).forEach(({ name, values }, index) => {
      violations.text(`parameters[${index}].name`, name);
      violations.count(`parameters[${index}].values`, values, MAX_VALUES);
    });
    violations.range('max_trials', maxTrials, { least: 0, most: MAX_TRIALS });
    violations.range('max_seconds', maxSeconds, { least: 0, most: MAX_SEARCH_SECONDS, unit: 's' });
    violations.range('max_usd', maxUsd, { least: 0, most: MAX_USD, unit: 'USD' });
  },
});

/**
 * Digest of a method and a request, equal for equal content. It is not computed from the received bytes, because
 * clients may order the entries of a map differently.
 */
export function requestDigest<Desc extends DescMessage>(
  method: string,
  schema: Desc,
  request: MessageShape<Desc>,
): string {
  return createHash('sha256')
    .update(`${method}\n${canonical(toJson(schema, request))}`)
    .digest('hex');
}

function canonical(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`).join(',')}}`;
}
