/** Timelines of jobs for trace viewers. */
export { jobSpans } from './job-spans.ts';
export { otlpTraces, parseTraceParent } from './otlp.ts';
