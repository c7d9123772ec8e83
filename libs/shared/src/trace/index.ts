/** What jobs did when, for viewers of traces. */
export { type JobSpan, jobSpans } from './job-spans.ts';
export { otlpTraces, parseTraceParent, type TraceParent } from './otlp.ts';
