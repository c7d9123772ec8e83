/** Sends the spans of ended jobs by OTLP over HTTP, if OpenTelemetry's variables name a receiver. */
import { fromBinary } from '@bufbuild/protobuf';
import { JobEventSchema, type JobEvent, UsageError } from '@flashcore/shared/contract';
import { jobSpans, otlpTraces, parseTraceParent } from '@flashcore/shared/trace';
import { endsWithin } from '../async.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { Logger } from '../log.ts';
import { TRACEPARENT } from '../rpc/start-job.ts';

export interface TraceTarget {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly resource: Readonly<Record<string, string>>;
}

/** Undefined if no receiver is named. Errors: UsageError for an invalid address. */
export function traceTarget(environment: NodeJS.ProcessEnv): TraceTarget | undefined {
  const { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: whole, OTEL_EXPORTER_OTLP_ENDPOINT: base } = environment;
  const text = whole || (base && `${base.replace(/\/+$/, '')}/v1/traces`);
  if (!text || environment.OTEL_SDK_DISABLED === 'true') return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new UsageError(
      `${whole ? 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT' : 'OTEL_EXPORTER_OTLP_ENDPOINT'}=${whole || base}: must be an http or https address, for example http://127.0.0.1:4318`,
    );
  return {
    url,
    headers: pairsOf(environment.OTEL_EXPORTER_OTLP_HEADERS),
    resource: {
      ...pairsOf(environment.OTEL_RESOURCE_ATTRIBUTES),
      'service.name': environment.OTEL_SERVICE_NAME || 'flashcore-runner',
    },
  };
}

/** "a=1,b=%20": names and values, percent-encoded. */
function pairsOf(text = ''): Record<string, string> {
  const pairs = text.split(',').flatMap((pair): [string, string][] => {
    const at = pair.indexOf('=');
    return at > 0 ? [[pair.slice(0, at).trim(), decoded(pair.slice(at + 1).trim())]] : [];
  });
  return Object.fromEntries(pairs);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text;
    throw error;
  }
}

export interface TracingOptions {
  readonly target: TraceTarget;
  readonly jobs: Pick<Jobs, 'get' | 'watch'>;
  readonly version: string;
  readonly logger: Logger;
}

const SEND_MS = 10_000;
const CLOSE_MS = 2_000;
/** Most unsent traces; without a limit, a receiver that does not answer would fill the memory. */
const MOST_WAITING = 64;

/** Traces are optional: a trace that can't be sent is logged and dropped, and no job waits for it. */
export class Tracing {
  readonly #options: TracingOptions;
  readonly #waiting = new Set<Promise<void>>();

  constructor(options: TracingOptions) {
    this.#options = options;
  }

  /** Sends the spans of an ended job. */
  send(name: string): void {
    const { logger } = this.#options;
    if (this.#waiting.size >= MOST_WAITING) {
      logger.warn({ job: name }, 'its trace was dropped: the receiver is behind');
      return;
    }
    const sending = this.#send(name)
      .catch((error: unknown) => logger.warn({ job: name, err: error }, 'its trace could not be sent'))
      .finally(() => this.#waiting.delete(sending));
    this.#waiting.add(sending);
  }

  /** Waits a moment for traces that are being sent. */
  async close(): Promise<void> {
    await endsWithin(Promise.all(this.#waiting), CLOSE_MS);
  }

  async #send(name: string): Promise<void> {
    const { target, jobs, version } = this.#options;
    const events: JobEvent[] = [];
    const signal = AbortSignal.timeout(SEND_MS);
    for await (const batch of jobs.watch(name, { afterSequence: 0, signal }))
      events.push(...batch.map((each) => fromBinary(JobEventSchema, each)));
    const parent = parseTraceParent(jobs.get(name).job.labels[TRACEPARENT]);
    const body = otlpTraces(jobSpans(events), { job: name, parent, resource: target.resource, version });
    const response = await fetch(target.url, {
      method: 'POST',
      headers: { ...target.headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal,
    });
    await response.body?.cancel();
    if (!response.ok) throw new Error(`${target.url.origin} answered ${response.status}`);
  }
}
