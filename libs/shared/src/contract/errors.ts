/**
 * The error class of everything but the command line: a reason from the proto's enum, facts by name, and a text that
 * says what was wanted, what was found, and what to do.
 */
import { randomUUID } from 'node:crypto';
// Imports this file rather than the package, because the package loads Node's HTTP/2, which would delay fa-tui's first
// frame.
import { Status as status } from '@grpc/grpc-js/build/src/constants.js';
import { ErrorReason } from '../generated/flashcore/runner/v1/error_reason_pb.js';
import type { EnumName } from './names.ts';

/** The command line asks for something that can't be done. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Name of the proto's ErrorReason without its prefix. */
export type ErrorReasonName = EnumName<typeof ErrorReason>;

/** A wrong field of a request, or a wrong key of a file. */
export interface FieldViolation {
  field: string;
  description: string;
}

export interface FlashcoreErrorOptions {
  cause?: unknown;
  violations?: FieldViolation[];
  /** Seconds after which trying again may help (QUEUE_FULL, QUOTA_EXCEEDED). */
  retryAfterSeconds?: number;
}

export class FlashcoreError extends Error {
  override readonly name = 'FlashcoreError';
  readonly reason: ErrorReasonName;
  readonly metadata: Record<string, string>;
  readonly violations: FieldViolation[];
  readonly retryAfterSeconds: number | undefined;

  constructor(
    reason: ErrorReasonName,
    metadata: Record<string, string>,
    message: string,
    options: FlashcoreErrorOptions = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.reason = reason;
    this.metadata = metadata;
    this.violations = options.violations ?? [];
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** An INVALID_REQUEST whose text lists its violations. */
export function invalidRequest(...violations: FieldViolation[]): FlashcoreError {
  const text = violations.map(({ field, description }) => `${field}: ${description}`).join('; ');
  return new FlashcoreError('INVALID_REQUEST', {}, `Invalid request: ${text}`, { violations });
}

/**
 * Turns a foreign error into INTERNAL with an incident number. The log has that number next to the cause. The cause's
 * own text is not shown, because it may name host paths.
 */
export function asFlashcoreError(error: unknown): FlashcoreError {
  if (error instanceof FlashcoreError) return error;
  const incident = randomUUID().slice(0, 8);
  return new FlashcoreError(
    'INTERNAL',
    { incident },
    `A fault of the runner itself: its log has the cause under incident ${incident}`,
    { cause: error },
  );
}

export const isErrorReasonName = (name: string): name is ErrorReasonName => Object.hasOwn(GRPC_CODES, name);

/** The gRPC status code for an error with this reason, as in error_reason.proto. */
export const grpcCodeOf = (reason: ErrorReasonName): status => GRPC_CODES[reason];

const GRPC_CODES: Record<ErrorReasonName, status> = {
  INVALID_REQUEST: status.INVALID_ARGUMENT,
  KERNEL_NOT_FOUND: status.NOT_FOUND,
  INVALID_MANIFEST: status.INVALID_ARGUMENT,
  INVALID_VARIANT: status.INVALID_ARGUMENT,
  SHAPE_UNSUPPORTED: status.INVALID_ARGUMENT,
  ARCH_UNSUPPORTED: status.FAILED_PRECONDITION,
  COMPILER_MISSING: status.FAILED_PRECONDITION,
  PROFILER_UNAVAILABLE: status.FAILED_PRECONDITION,
  JOB_NOT_FOUND: status.NOT_FOUND,
  EVENTS_EXPIRED: status.OUT_OF_RANGE,
  REQUEST_ID_REUSED: status.ALREADY_EXISTS,
  QUEUE_FULL: status.RESOURCE_EXHAUSTED,
  DISK_FULL: status.RESOURCE_EXHAUSTED,
  ARTIFACT_NOT_FOUND: status.NOT_FOUND,
  SOURCES_MISSING: status.FAILED_PRECONDITION,
  DIGEST_MISMATCH: status.INVALID_ARGUMENT,
  DRAINING: status.UNAVAILABLE,
  DEVICE_UNAVAILABLE: status.FAILED_PRECONDITION,
  NOT_IMPLEMENTED: status.UNIMPLEMENTED,
  UNAUTHENTICATED: status.UNAUTHENTICATED,
  VERSION_MISMATCH: status.FAILED_PRECONDITION,
  RUNNER_UNREACHABLE: status.UNAVAILABLE,
  BUILD_NOT_FOUND: status.NOT_FOUND,
  INTERNAL: status.INTERNAL,
  PERMISSION_DENIED: status.PERMISSION_DENIED,
  QUOTA_EXCEEDED: status.RESOURCE_EXHAUSTED,
  NOT_ACCEPTABLE: status.FAILED_PRECONDITION,
  STORE_UNAVAILABLE: status.UNAVAILABLE,
  DATA_DAMAGED: status.DATA_LOSS,
  STREAM_ENDED: status.RESOURCE_EXHAUSTED,
};
