import { createHash } from 'node:crypto';
import { toJson, type DescMessage, type JsonValue, type MessageShape } from '@bufbuild/protobuf';

/**
 * Digest of a method and a request, equal for equal content. It is not computed from the received bytes, because
 * clients may order the entries of a map differently.
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
