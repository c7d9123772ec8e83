/**
 * Writes spans as OTLP/JSON without a library: the exporters of OpenTelemetry's SDK for this Node version get no more
 * releases, and only one document is sent.
 */
import { createHash } from 'node:crypto';
import type { JobSpan } from './job-spans.ts';

/** W3C trace context: the client's trace and span to which the job belongs. */
export interface TraceParent {
  readonly traceId: string;
  readonly spanId: string;
}

/** Undefined if the text does not follow the standard, or an id is all zeros. */
export function parseTraceParent(text: string | undefined): TraceParent | undefined {
  const match = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?$/.exec(
    text ?? '',
  );
  return match ? { traceId: match[1]!, spanId: match[2]! } : undefined;
}

export interface OtlpOptions {
  /** The job's name. Ids are derived from it, so sending a trace twice does not duplicate it. */
  readonly job: string;
  readonly parent: TraceParent | undefined;
  /** service.name and other names of the process. */
  readonly resource: Readonly<Record<string, string>>;
  readonly version: string;
}

const INTERNAL = 1;
const OK = 1;
const ERROR = 2;

/** The body of POST /v1/traces. */
export function otlpTraces(spans: readonly JobSpan[], { job, parent, resource, version }: OtlpOptions): unknown {
  const traceId = parent?.traceId ?? idOf(`trace ${job}`, 32);
  const spanId = (index: number): string => idOf(`span ${job} ${index}`, 16);
  return {
    resourceSpans: [
      {
        resource: { attributes: attributesOf(resource) },
        scopeSpans: [
          {
            scope: { name: 'flashcore', version },
            spans: spans.map((span, index) => {
              const above = span.parent === undefined ? parent?.spanId : spanId(span.parent);
              return {
                traceId,
                spanId: spanId(index),
                ...(above !== undefined && { parentSpanId: above }),
                name: span.name,
                kind: INTERNAL,
                startTimeUnixNano: nanos(span.fromUs),
                endTimeUnixNano: nanos(span.untilUs),
                attributes: attributesOf({ kind: span.kind, track: span.track, ...span.attributes }),
                status: { code: span.failed ? ERROR : OK },
              };
            }),
          },
        ],
      },
    ],
  };
}

/** Hexadecimal digits derived from a text; never all zeros. */
const idOf = (text: string, digits: number): string =>
  createHash('sha256').update(`flashcore ${text}`).digest('hex').slice(0, digits);

const nanos = (us: number): string => String(BigInt(Math.round(us)) * 1000n);

const attributesOf = (values: Readonly<Record<string, string | number | boolean>>): unknown[] =>
  Object.entries(values)
    .filter(([, value]) => value !== '')
    .map(([key, value]) => ({ key, value: valueOf(value) }));

function valueOf(value: string | number | boolean): unknown {
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'string') return { stringValue: value };
  // protobuf's JSON encodes 64-bit integers as texts.
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
