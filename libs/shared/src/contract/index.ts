/** The contract with the runner: messages of the proto, errors, and the outcome of a result. */
export * from './plain-message.ts';
export * from './error-status.ts';
export * from './digest.ts';
export * from './errors.ts';
export * from './names.ts';
export * from './outcome.ts';
export * from '../generated/flashcore/runner/v1/acceptance_pb.js';
export * from '../generated/flashcore/runner/v1/artifact_pb.js';
export * from '../generated/flashcore/runner/v1/capabilities_pb.js';
export * from '../generated/flashcore/runner/v1/job_event_pb.js';
export * from '../generated/flashcore/runner/v1/job_pb.js';
export * from '../generated/flashcore/runner/v1/kernel_pb.js';
export * from '../generated/flashcore/runner/v1/phase_pb.js';
export * from '../generated/flashcore/runner/v1/result_pb.js';
export * from '../generated/flashcore/runner/v1/service_pb.js';
