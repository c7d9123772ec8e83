import { toJson, type DescMessage, type MessageShape } from '@bufbuild/protobuf';

/**
 * The proto's JSON mapping with default values included, so that a reader need not know that a count of 0 would be
 * omitted.
 */
export function jsonOf<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): unknown {
  return toJson(schema, message, { alwaysEmitImplicit: true });
}
