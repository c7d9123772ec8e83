// Field 1, length-delimited: `JobEvent event = 1` of BuildResponse, WatchJobResponse and other messages with an event.
const EVENT_FIELD_TAG = 0x0a;

/** A response that carries a stored event, in protobuf's binary form: tag, length as a varint, the event's bytes. */
export function frameEvent(event: Uint8Array): Buffer {
  const header = [EVENT_FIELD_TAG];
  let length = event.byteLength;
  for (; length > 0x7f; length >>>= 7) header.push((length & 0x7f) | 0x80);
  header.push(length);
  return Buffer.concat([Uint8Array.from(header), event]);
}
