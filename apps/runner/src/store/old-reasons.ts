import { fromBinary, fromJson, toBinary, toJson, type JsonValue } from '@bufbuild/protobuf';
import { JobEventSchema, VERDICT_WORDS, withCurrentNames } from '@flashcore/shared/contract';

/**
 * Removes old prefixes from reasons in a stored event (JobEvent in protobuf's binary form): until 2026-11-22 reasons
 * were stored as "not measured: …", and now the screens add these words. Events without such words are not decoded.
 */
export function withBareReasons(event: Uint8Array): Uint8Array {
  const bytes = Buffer.from(event.buffer, event.byteOffset, event.byteLength);
  if (!VERDICT_WORDS.some((words) => bytes.includes(words))) return event;
  const json = withCurrentNames(toJson(JobEventSchema, fromBinary(JobEventSchema, event)));
  return toBinary(JobEventSchema, fromJson(JobEventSchema, json as JsonValue));
}
