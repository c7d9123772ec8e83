/** The sizes of each entry's parameters in bytes, from the compiled code. */
import { readFileSync } from 'node:fs';
import { sectionsOf } from './cubin-code.ts';

export type EntryParameters = ReadonlyMap<string, readonly number[]>;

const INFO_SECTION = '.nv.info.';
/**
 * A record has a format, an attribute and a 16-bit value. In the format WITH_BYTES the value is the number of bytes
 * that follow.
 */
const RECORD_BYTES = 4;
const WITH_BYTES = 4;
/** A parameter's record has its ordinal at offset 4, and at offset 8 a word whose upper 14 bits are its size. */
const PARAMETER = { attribute: 0x17, bytes: 12, ordinal: 4, word: 8, sizeShift: 18 };

/**
 * Parameters from the attributes in a cubin, which the driver reads too. Entries without such attributes are left out.
 */
export function cubinParameters(path: string): EntryParameters {
  const sections = [...sectionsOf(readFileSync(path))].filter(([name]) => name.startsWith(INFO_SECTION));
  const told = sections.map(([name, info]) => [name.slice(INFO_SECTION.length), parametersIn(info)] as const);
  return new Map(told.filter(([, parameters]) => parameters.length > 0));
}

/** The records of a section .nv.info…: each has an attribute's number and, in some formats, bytes. */
export function* infoRecords(info: Buffer): Generator<{ attribute: number; value: Buffer }> {
  for (let at = 0; at + RECORD_BYTES <= info.length;) {
    const bytes = info[at] === WITH_BYTES ? info.readUInt16LE(at + 2) : 0;
    yield { attribute: info[at + 1]!, value: info.subarray(at + RECORD_BYTES, at + RECORD_BYTES + bytes) };
    at += RECORD_BYTES + bytes;
  }
}

function parametersIn(info: Buffer): number[] {
  const sizes: number[] = [];
  for (const { attribute, value } of infoRecords(info))
    if (attribute === PARAMETER.attribute && value.length === PARAMETER.bytes)
      sizes[value.readUInt16LE(PARAMETER.ordinal)] = value.readUInt32LE(PARAMETER.word) >>> PARAMETER.sizeShift;
  // A hostile cubin may leave out ordinals, which makes holes in the array.
  return Array.from(sizes, (size) => size ?? 0);
}

const ENTRY = /\.entry ([\w$]+)\s*\(([^)]*)\)/g;
const IN_PTX = /\.param\b[^,]*?\.[a-z]+(\d+)\b[^,[]*(?:\[(\d+)\])?/g;

/** Parameters from PTX, for builds without a cubin. */
export const ptxParameters = (text: string): EntryParameters =>
  new Map(
    [...text.matchAll(ENTRY)].map(([, entry = '', list = '']) => [
      entry,
      [...list.matchAll(IN_PTX)].map(([, bits, count]) => (Number(bits) / 8) * Number(count ?? 1)),
    ]),
  );
