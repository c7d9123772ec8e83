/** What an entry takes, told by what was compiled of it: bytes of each parameter, by entry. */
import { readFileSync } from 'node:fs';
import { sectionsOf } from './cubin-code.ts';

export type EntryParameters = ReadonlyMap<string, readonly number[]>;

const INFO_SECTION = '.nv.info.';
/** A record: format, attribute, then a value of 16 bits, which of this format is the bytes that follow. */
const RECORD_BYTES = 4;
const WITH_BYTES = 4;
/** Of a parameter: ordinal at 4, and at 8 a word whose upper 14 bits are its size. */
const PARAMETER = { attribute: 0x17, bytes: 12, ordinal: 4, word: 8, sizeShift: 18 };

/** Of a cubin, whose attributes tell the driver the same. An entry of which they tell nothing is left out. */
export function cubinParameters(path: string): EntryParameters {
  const sections = [...sectionsOf(readFileSync(path))].filter(([name]) => name.startsWith(INFO_SECTION));
  const told = sections.map(([name, info]) => [name.slice(INFO_SECTION.length), parametersIn(info)] as const);
  return new Map(told.filter(([, parameters]) => parameters.length > 0));
}

function parametersIn(info: Buffer): number[] {
  const sizes: number[] = [];
  for (let at = 0; at + RECORD_BYTES <= info.length;) {
    const bytes = info[at] === WITH_BYTES ? info.readUInt16LE(at + 2) : 0;
    const record = info.subarray(at + RECORD_BYTES, at + RECORD_BYTES + bytes);
    if (info[at + 1] === PARAMETER.attribute && record.length === PARAMETER.bytes)
      sizes[record.readUInt16LE(PARAMETER.ordinal)] = record.readUInt32LE(PARAMETER.word) >>> PARAMETER.sizeShift;
    at += RECORD_BYTES + bytes;
  }
  return sizes;
}

const ENTRY = /\.entry ([\w$]+)\s*\(([^)]*)\)/g;
const IN_PTX = /\.param\b[^,]*?\.[a-z]+(\d+)\b[^,[]*(?:\[(\d+)\])?/g;

/** Of PTX, where no ptxas has made a cubin of it. */
export const ptxParameters = (text: string): EntryParameters =>
  new Map(
    [...text.matchAll(ENTRY)].map(([, entry = '', list = '']) => [
      entry,
      [...list.matchAll(IN_PTX)].map(([, bits, count]) => (Number(bits) / 8) * Number(count ?? 1)),
    ]),
  );
