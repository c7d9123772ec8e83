import {
  create,
  type DescField,
  type DescMessage,
  type DescOneof,
  type MessageShape,
  ScalarType,
} from '@bufbuild/protobuf';

/** Sets the clipboard (OSC 52), clears the screen and reverses the writing direction, with plain text in between. */
export const HOSTILE_TEXT = 'safe\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1bP0;1|ZXZpbA\x1b\\\u009b2J\u202e\u{e0069}\u200btext';

const MAX_DEPTH = 6;

/** A message with `HOSTILE_TEXT` in every text field at any depth, and small numbers in the other fields. */
export function hostileMessage<Schema extends DescMessage>(
  schema: Schema,
  cases: Readonly<Record<string, string>> = {},
): MessageShape<Schema> {
  return create(schema, fill(schema, cases, 0) as never);
}

function fill(schema: DescMessage, cases: Readonly<Record<string, string>>, depth: number): Record<string, unknown> {
  return Object.fromEntries(
    schema.members.flatMap((member) => {
      if (member.kind === 'oneof') return [[member.localName, oneofValue(member, cases, depth)]];
      const value = fieldValue(member, depth);
      return value === undefined ? [] : [[member.localName, value]];
    }),
  );
}

function oneofValue(oneof: DescOneof, cases: Readonly<Record<string, string>>, depth: number): unknown {
  const chosen = oneof.fields.find(({ localName }) => localName === cases[oneof.localName]) ?? oneof.fields[0]!;
  return { case: chosen.localName, value: single(chosen, depth) };
}

function fieldValue(field: DescField, depth: number): unknown {
  const value = single(field, depth);
  if (value === undefined) return undefined;
  if (field.fieldKind === 'list') return [value];
  if (field.fieldKind === 'map') return { [HOSTILE_TEXT]: value };
  return value;
}

function single(field: DescField, depth: number): unknown {
  if (field.message) {
    if (field.message.typeName.startsWith('google.protobuf.')) return { seconds: 1n, nanos: 0 };
    return depth < MAX_DEPTH ? fill(field.message, {}, depth + 1) : undefined;
  }
  if (field.enum) return field.enum.values.at(-1)!.number;
  switch (field.scalar) {
    case ScalarType.STRING:
      return HOSTILE_TEXT;
    case ScalarType.BOOL:
      return true;
    case ScalarType.BYTES:
      return new Uint8Array([1]);
    case ScalarType.INT64:
    case ScalarType.UINT64:
    case ScalarType.SINT64:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return 1n;
    default:
      return 1;
  }
}
