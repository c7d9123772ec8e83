/** Timelines of jobs for trace viewers. */
export { type JobSpan, jobSpans } from './job-spans.ts';
export { otlpTraces, parseTraceParent, type TraceParent } from './otlp.ts';
