/** What the runner, the terminal program and the tests have in common. */
export * from './generated/flashcore/runner/v1/artifact_pb.js';
export * from './generated/flashcore/runner/v1/capabilities_pb.js';
export * from './generated/flashcore/runner/v1/error_reason_pb.js';
export * from './generated/flashcore/runner/v1/job_event_pb.js';
export * from './generated/flashcore/runner/v1/job_pb.js';
export * from './generated/flashcore/runner/v1/kernel_pb.js';
export * from './generated/flashcore/runner/v1/result_pb.js';
export * from './generated/flashcore/runner/v1/service_pb.js';
