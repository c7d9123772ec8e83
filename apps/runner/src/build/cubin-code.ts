import { readFileSync } from 'node:fs';

/** Offsets in a 64-bit little-endian ELF file; all cubins are such files. */
const SECTION_TABLE = { offset: 40, count: 60, names: 62 };
const SECTION_BYTES = 64;
const SECTION = { name: 0, type: 4, offset: 24, size: 32 };
const NO_BITS = 8;

/** Whether a cubin has variables in device memory, through which launches may pass data to each other. */
export const hasVariables = (path: string): boolean =>
  [...sectionsOf(readFileSync(path)).keys()].some((name) => /^\.nv\.global(?:\.init)?$/.test(name));

/** Contents of a cubin's sections, by name. */
export const sectionsOf = (file: Buffer): Map<string, Buffer> => new Map(allSections(file));

/** Names and contents of all sections, in order, because symbols refer to them by index. */
function allSections(file: Buffer): [name: string, content: Buffer][] {
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
  return headers.map((header) => [nameOf(header), contentOf(header)]);
}

/** Size of an entry in a 64-bit symbol table. */
const SYMBOL_BYTES = 24;
const SYMBOL = { name: 0, info: 4, section: 6, size: 16 };
const TYPE_BITS = 0xf;

export interface CubinSymbol {
  name: string;
  /** STT_OBJECT is 1, STT_FUNC 2. */
  type: number;
  /** undefined if the symbol is defined elsewhere or in no section. */
  section: string | undefined;
  bytes: number;
}

/** A cubin's symbols, in order, without the empty first one. */
export function symbolsOf(file: Buffer): CubinSymbol[] {
  const sections = allSections(file);
  const contentOf = (wanted: string): Buffer => sections.find(([name]) => name === wanted)?.[1] ?? Buffer.alloc(0);
  const [table, names] = [contentOf('.symtab'), contentOf('.strtab')];
  return Array.from({ length: Math.max(0, Math.floor(table.length / SYMBOL_BYTES) - 1) }, (_, index) => {
    const symbol = table.subarray((index + 1) * SYMBOL_BYTES, (index + 2) * SYMBOL_BYTES);
    const start = symbol.readUInt32LE(SYMBOL.name);
    const section = symbol.readUInt16LE(SYMBOL.section);
    return {
      name: names.toString('latin1', start, names.indexOf(0, start)),
      type: symbol.readUInt8(SYMBOL.info) & TYPE_BITS,
      section: section === 0 ? undefined : sections[section]?.[0],
      bytes: Number(symbol.readBigUInt64LE(SYMBOL.size)),
    };
  });
}
