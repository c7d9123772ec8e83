/** The contract with the runner: messages of the proto, errors, and the outcome of a result. */
export { plainMessage, type CleanText } from './plain-message.ts';
export * from '../generated/flashcore/runner/v1/acceptance_pb.js';
export * from '../generated/flashcore/runner/v1/artifact_pb.js';
export * from '../generated/flashcore/runner/v1/capabilities_pb.js';
export * from '../generated/flashcore/runner/v1/job_event_pb.js';
export * from '../generated/flashcore/runner/v1/job_pb.js';
export * from '../generated/flashcore/runner/v1/kernel_pb.js';
export * from '../generated/flashcore/runner/v1/phase_pb.js';
export * from '../generated/flashcore/runner/v1/result_pb.js';
export * from '../generated/flashcore/runner/v1/service_pb.js';
export { errorFromStatus, hasErrorDetails, statusFromError } from './error-status.ts';
export { SHA256_FORM, type Sha256, digestOf, isSha256, parseSha256, sha256Of } from './digest.ts';
export {
  type FieldViolation,
  FlashcoreError,
  UsageError,
  asFlashcoreError,
  invalidRequest,
  isErrorReasonName,
} from './errors.ts';
export { TIMING_MODES, timingModeName, type EnumName, type Plain } from './message-types.ts';
export {
  COST_FINDINGS,
  type ExitCode,
  exitCodeOfError,
  exitCodeOfOutcome,
  outcomeOfJob,
  outcomeOfVariant,
} from './outcome.ts';
export { VERDICT_WORDS, withCurrentNames } from './renamed-fields.ts';
export {
  allProbes,
  isParity,
  machineText,
  parityCounts,
  parityShort,
  parityText,
  type ParityCounts,
} from './outcome.ts';
