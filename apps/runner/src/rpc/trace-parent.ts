/** Label of a job whose request came with W3C's trace context. */
export const TRACEPARENT = 'traceparent';
