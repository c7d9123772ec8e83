import { fromBinary, fromJson, toBinary, toJson, type JsonValue } from '@bufbuild/protobuf';
import { JobEventSchema, VERDICT_WORDS, withCurrentNames } from '@flashcore/shared/contract';

/**
 * A stored event (JobEvent in protobuf's binary form) with bare reasons: until 2026-11-22 they were stored as
 * "not measured: …", and whoever shows them adds the words now. Events without such words are not decoded.
 */
export function withBareReasons(event: Uint8Array): Uint8Array {
  const bytes = Buffer.from(event.buffer, event.byteOffset, event.byteLength);
  if (!VERDICT_WORDS.some((words) => bytes.includes(words))) return event;
  const json = withCurrentNames(toJson(JobEventSchema, fromBinary(JobEventSchema, event)));
  return toBinary(JobEventSchema, fromJson(JobEventSchema, json as JsonValue));
}
