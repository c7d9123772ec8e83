import { createHash } from 'node:crypto';
import { toJson, type DescMessage, type JsonValue, type MessageShape } from '@bufbuild/protobuf';

/**
 * Digest of a method and a request, the same for the same content: clients may order the entries of a map differently,
 * so not of the bytes they sent.
 */
export function requestDigest<Desc extends DescMessage>(
  method: string,
  schema: Desc,
  request: MessageShape<Desc>,
): string {
  return createHash('sha256')
    .update(`${method}\n${canonical(toJson(schema, request))}`)
    .digest('hex');
}

function canonical(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`).join(',')}}`;
}
