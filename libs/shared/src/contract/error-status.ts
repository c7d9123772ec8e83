/** Converts errors to gRPC statuses and back. No other code does this. */
import { create, type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { type Any, anyIs, anyPack, anyUnpack, DurationSchema } from '@bufbuild/protobuf/wkt';
import type { ServiceError, StatusObject } from '@grpc/grpc-js';
import { Status as status } from '@grpc/grpc-js/build/src/constants.js';
import { Metadata } from '@grpc/grpc-js/build/src/metadata.js';
import {
  asFlashcoreError,
  type ErrorReasonName,
  type FieldViolation,
  FlashcoreError,
  grpcCodeOf,
  isErrorReasonName,
} from './errors.ts';
import { plainText } from '../text/plain-text.ts';
import { plainMessage, type CleanText } from './plain-message.ts';
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
  type Status,
  StatusSchema,
} from '../generated/google/rpc/status_pb.js';

const ERROR_DOMAIN = 'flashcore.dev';
const DETAILS_KEY = 'grpc-status-details-bin';
// Large statuses block a grpc-js connection, and clients with default limits lose them, so details and message stay
// small.
const MAX_DETAILS_BYTES = 1024;
const MAX_MESSAGE_BYTES = 1024;

/**
 * A server's answer for an error: code, text, and google.rpc.Status in `grpc-status-details-bin`, at most 1 KiB. A
 * foreign error becomes INTERNAL with an incident number (asFlashcoreError). `text` cleans texts, as in plainMessage().
 */
export function statusFromError(thrown: unknown, text: CleanText = plainText): StatusObject {
  const error = cleaned(asFlashcoreError(thrown), text);
  const metadata = new Metadata();
  metadata.set(DETAILS_KEY, encodeDetails(error));
  return { code: grpcCodeOf(error.reason), details: truncate(error.message, MAX_MESSAGE_BYTES), metadata };
}

function cleaned({ reason, metadata, message, violations, retryAfterSeconds }: FlashcoreError, text: CleanText) {
  return new FlashcoreError(
    reason,
    Object.fromEntries(Object.entries(metadata).map(([key, value]) => [text(key), text(value)])),
    text(message),
    {
      violations: violations.map(({ field, description }) => ({ field: text(field), description: text(description) })),
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    },
  );
}

/** The error that a runner sent as a status. A status without our details gets the reason nearest to its code. */
export function errorFromStatus(error: ServiceError): FlashcoreError {
  const details = decodeDetails(error);
  if (details?.reason === undefined)
    return new FlashcoreError(
      reasonOfCode(error.code),
      { code: status[error.code] },
      plainText(error.details || error.message),
      {
        cause: error,
      },
    );
  const { reason, metadata, message, violations, retryAfterSeconds } = details;
  return new FlashcoreError(reason, metadata, plainText(error.details || message), {
    cause: error,
    violations,
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  });
}

/** Whether a status carries a flashcore error, which means that a runner answered and the connection is not broken. */
export const hasErrorDetails = (error: ServiceError): boolean => decodeDetails(error) !== undefined;

/** Encodes the details, and shortens their texts until they fit. */
function encodeDetails(error: FlashcoreError): Buffer {
  for (let textBytes = 512; ; textBytes = Math.floor(textBytes / 2)) {
    const bytes = toBinary(StatusSchema, detailsOf(error, textBytes));
    if (bytes.length <= MAX_DETAILS_BYTES || textBytes === 0) return Buffer.from(bytes);
  }
}

function detailsOf(error: FlashcoreError, textBytes: number): Status {
  const details: Any[] = [
    anyPack(
      ErrorInfoSchema,
      create(ErrorInfoSchema, {
        reason: error.reason,
        domain: ERROR_DOMAIN,
        metadata: Object.fromEntries(
          Object.entries(error.metadata)
            .slice(0, 8)
            .map(([key, value]) => [truncate(key, 64), truncate(value, textBytes)]),
        ),
      }),
    ),
  ];
  const fieldViolations = error.violations
    .slice(0, Math.max(1, Math.floor(textBytes / 32)))
    .map(({ field, description }) => ({ field: truncate(field, 64), description: truncate(description, textBytes) }));
  if (fieldViolations.length > 0 && textBytes > 0)
    details.push(anyPack(BadRequestSchema, create(BadRequestSchema, { fieldViolations })));
  if (error.retryAfterSeconds !== undefined)
    details.push(anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay: duration(error.retryAfterSeconds) })));
  const message = truncate(error.message, textBytes);
  return create(StatusSchema, { code: grpcCodeOf(error.reason), message, details });
}

interface DecodedDetails {
  /** undefined if the reason comes from a newer runner. */
  reason: ErrorReasonName | undefined;
  metadata: Record<string, string>;
  message: string;
  violations: FieldViolation[];
  retryAfterSeconds: number | undefined;
}

/** The details that a flashcore runner sent; undefined if there are no details, or only those of another service. */
function decodeDetails(error: ServiceError): DecodedDetails | undefined {
  const [bytes] = error.metadata?.get(DETAILS_KEY) ?? [];
  if (!(bytes instanceof Buffer)) return undefined;
  try {
    const { message, details } = plainMessage(StatusSchema, fromBinary(StatusSchema, bytes));
    const info = findDetail(details, ErrorInfoSchema);
    if (info?.domain !== ERROR_DOMAIN) return undefined;
    const delay = findDetail(details, RetryInfoSchema)?.retryDelay;
    return {
      reason: isErrorReasonName(info.reason) ? info.reason : undefined,
      metadata: { ...info.metadata },
      message,
      violations:
        findDetail(details, BadRequestSchema)?.fieldViolations.map(({ field, description }) => ({
          field,
          description,
        })) ?? [],
      retryAfterSeconds: delay && Number(delay.seconds) + delay.nanos / 1e9,
    };
  } catch (cause) {
    // Unreadable details are treated as missing; the code and the text remain.
    error.cause ??= cause;
    return undefined;
  }
}

function findDetail<Desc extends DescMessage>(details: readonly Any[], schema: Desc): MessageShape<Desc> | undefined {
  const packed = details.find((any) => anyIs(any, schema));
  const detail = packed && anyUnpack(packed, schema);
  return detail && plainMessage(schema, detail);
}

function duration(seconds: number) {
  const whole = Math.floor(seconds);
  return create(DurationSchema, { seconds: BigInt(whole), nanos: Math.round((seconds - whole) * 1e9) });
}

/** The beginning of a text, cut between characters, with "…" if something is missing. */
function truncate(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) <= maxBytes) return text;
  let kept = '';
  let bytes = Buffer.byteLength('…');
  for (const character of text) {
    bytes += Buffer.byteLength(character);
    if (bytes > maxBytes) break;
    kept += character;
  }
  return maxBytes < 3 ? '' : `${kept}…`;
}

function reasonOfCode(code: status): ErrorReasonName {
  switch (code) {
    case status.INVALID_ARGUMENT:
    case status.RESOURCE_EXHAUSTED: // grpc-js' own status for a message over the size limit
      return 'INVALID_REQUEST';
    case status.UNIMPLEMENTED:
      return 'NOT_IMPLEMENTED';
    case status.UNAUTHENTICATED:
      return 'UNAUTHENTICATED';
    case status.PERMISSION_DENIED:
      return 'PERMISSION_DENIED';
    case status.UNAVAILABLE:
    case status.DEADLINE_EXCEEDED:
      return 'RUNNER_UNREACHABLE';
    default:
      return 'INTERNAL';
  }
}
