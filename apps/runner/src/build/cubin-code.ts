import { readFileSync } from 'node:fs';

/** Of an ELF file of 64 bits, little-endian, as all cubins are. */
const SECTION_TABLE = { offset: 40, count: 60, names: 62 };
const SECTION_BYTES = 64;
const SECTION = { name: 0, type: 4, offset: 24, size: 32 };
const NO_BITS = 8;

/** Whether a cubin has variables in device memory, which launches may hand on to each other. */
export const hasVariables = (path: string): boolean =>
  [...sectionsOf(readFileSync(path)).keys()].some((name) => /^\.nv\.global(?:\.init)?$/.test(name));

/** Contents of a cubin's sections, by name. */
export function sectionsOf(file: Buffer): Map<string, Buffer> {
  const table = Number(file.readBigUInt64LE(SECTION_TABLE.offset));
  const headers = Array.from({ length: file.readUInt16LE(SECTION_TABLE.count) }, (_, index) =>
    file.subarray(table + index * SECTION_BYTES, table + (index + 1) * SECTION_BYTES),
  );
  const contentOf = (header: Buffer): Buffer => {
    if (header.readUInt32LE(SECTION.type) === NO_BITS) return Buffer.alloc(0);
    const offset = Number(header.readBigUInt64LE(SECTION.offset));
    return file.subarray(offset, offset + Number(header.readBigUInt64LE(SECTION.size)));
  };
  const names = contentOf(headers[file.readUInt16LE(SECTION_TABLE.names)]!);
  const nameOf = (header: Buffer): string => {
    const start = header.readUInt32LE(SECTION.name);
    return names.toString('latin1', start, names.indexOf(0, start));
  };
  return new Map(headers.map((header) => [nameOf(header), contentOf(header)]));
}
