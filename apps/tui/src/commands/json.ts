import { toJson, type DescMessage, type MessageShape } from '@bufbuild/protobuf';

/**
 * The proto's JSON mapping, fields at their default included: a reader need not know that 0 errors would be left out.
 */
export function jsonOf<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): unknown {
  return toJson(schema, message, { alwaysEmitImplicit: true });
}
