/** Label of a job whose request had a W3C trace context. */
export const TRACEPARENT = 'traceparent';
