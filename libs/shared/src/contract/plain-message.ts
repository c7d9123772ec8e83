/* eslint-disable flashcore/no-plain-dictionary -- keys are names of the contract's fields */
/** Messages whose texts are harmless for a terminal, whoever wrote them. */
import type { DescField, DescMessage, DescOneof, MessageShape } from '@bufbuild/protobuf';
import { ScalarType } from '@bufbuild/protobuf';
import { plainText } from '../text/plain-text.ts';

type Fields = Record<string, unknown>;

/** What makes a text harmless. */
export type CleanText = (text: string) => string;

/**
 * Cleans every text of a message, at any depth, in place, and gives the message back. Bytes stay as they are. `text`:
 * what else is to be taken out, besides plainText().
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

/** What to do with a message of this type; nothing for members that hold no text. */
function cleanersOf(schema: DescMessage): readonly Cleaner[] {
  const known = cleaners.get(schema);
  if (known) return known;
  const made: Cleaner[] = [];
  // First of all, for a type that contains itself.
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
      // Setting a field that is not there would make it present.
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

/** Cleans one value of a field, an element of a list, a value of a map; undefined where there is no text in it. */
function valueCleaner(field: DescField): ((value: unknown, text: CleanText) => unknown) | undefined {
  if (field.message) {
    const schema = field.message;
    return (value, text) => plainMessage(schema, value as MessageShape<DescMessage>, text);
  }
  const isText = field.scalar === ScalarType.STRING;
  if (isText) return (value, text) => text(value as string);
  // The keys of a map are texts too.
  return field.fieldKind === 'map' && field.mapKey === ScalarType.STRING ? (value) => value : undefined;
}
