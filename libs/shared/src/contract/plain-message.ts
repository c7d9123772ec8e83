/* eslint-disable flashcore/no-plain-dictionary -- keys are names of the contract's fields */
/** Makes the texts in a message harmless for a terminal. */
import { type DescField, type DescMessage, type DescOneof, type MessageShape, ScalarType } from '@bufbuild/protobuf';
import { plainText } from '../text/plain-text.ts';

type Fields = Record<string, unknown>;

/** Makes a text harmless. */
export type CleanText = (text: string) => string;

/**
 * Cleans every text of a message in place, at any depth, and returns the message. Bytes stay unchanged. `text` cleans
 * each text; the default is plainText().
 */
export function plainMessage<Schema extends DescMessage>(
  schema: Schema,
  message: MessageShape<Schema>,
  text: CleanText = plainText,
): MessageShape<Schema> {
  const fields: Fields = message;
  for (const clean of cleanersOf(schema)) clean(fields, text);
  return message;
}

type Cleaner = (fields: Fields, text: CleanText) => void;
const cleaners = new Map<DescMessage, readonly Cleaner[]>();

/** The cleaners for a message type; empty if no member holds text. */
function cleanersOf(schema: DescMessage): readonly Cleaner[] {
  const known = cleaners.get(schema);
  if (known) return known;
  const made: Cleaner[] = [];
  // The list is registered before it is filled, because a type may contain itself.
  cleaners.set(schema, made);
  made.push(
    ...schema.members.flatMap((member) => (member.kind === 'oneof' ? oneofCleaner(member) : fieldCleaner(member))),
  );
  return made;
}

function fieldCleaner(field: DescField): Cleaner[] {
  const value = valueCleaner(field);
  if (!value) return [];
  const name = field.localName;
  if (field.fieldKind === 'list')
    return [
      (fields, text) => {
        const list = fields[name] as unknown[];
        for (const [index, each] of list.entries()) list[index] = value(each, text);
      },
    ];
  if (field.fieldKind === 'map')
    return [
      (fields, text) => {
        fields[name] = Object.fromEntries(
          Object.entries(fields[name] as Fields).map(([key, each]) => [text(key), value(each, text)]),
        );
      },
    ];
  return [
    (fields, text) => {
      // Assigning to an absent field would make it present.
      if (fields[name] !== undefined && fields[name] !== '') fields[name] = value(fields[name], text);
    },
  ];
}

function oneofCleaner(oneof: DescOneof): Cleaner[] {
  const byCase = new Map(oneof.fields.map((field) => [field.localName, valueCleaner(field)]));
  return [
    (fields, text) => {
      const chosen = fields[oneof.localName] as { case: string | undefined; value?: unknown };
      const clean = chosen.case === undefined ? undefined : byCase.get(chosen.case);
      if (clean) chosen.value = clean(chosen.value, text);
    },
  ];
}

/** A function that cleans one value of a field, list or map; undefined if the value contains no text. */
function valueCleaner(field: DescField): ((value: unknown, text: CleanText) => unknown) | undefined {
  if (field.message) {
    const schema = field.message;
    return (value, text) => plainMessage(schema, value as MessageShape<DescMessage>, text);
  }
  const isText = field.scalar === ScalarType.STRING;
  if (isText) return (value, text) => text(value as string);
  // The keys of a map are texts too, and are cleaned even if its values hold no text.
  return field.fieldKind === 'map' && field.mapKey === ScalarType.STRING ? (value) => value : undefined;
}
