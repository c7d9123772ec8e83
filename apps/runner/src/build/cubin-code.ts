import { readFileSync } from 'node:fs';

/** Offsets in a 64-bit little-endian ELF file; all cubins are such files. */
export const SECTION_TABLE = { offset: 40, count: 60, names: 62 };
export const SECTION_BYTES = 64;
const SECTION = { name: 0, type: 4, flags: 8, offset: 24, size: 32, link: 40, info: 44 };
const NO_BITS = 8;
/** Longest name of a section or a symbol; mangled names of CUTLASS's kernels have over a thousand bytes. */
const MAX_NAME_BYTES = 4096;

/** Whether a cubin has variables in device memory, through which launches may pass data to each other. */
export const hasVariables = (path: string): boolean =>
  [...sectionsOf(readFileSync(path)).keys()].some((name) => /^\.nv\.global(?:\.init)?$/.test(name));

/** Contents of a cubin's sections, by name. */
export const sectionsOf = (file: Buffer): Map<string, Buffer> => new Map(allSections(file));

/** Names and contents of all sections, in order, because symbols refer to them by index. */
const allSections = (file: Buffer): [name: string, content: Buffer][] =>
  sectionHeaders(file).map(({ name, content }) => [name, content]);

export interface SectionHeader {
  name: string;
  type: number;
  flags: number;
  /** Index of the symbol table that a relocation section uses. */
  link: number;
  /** Index of the section that a relocation section patches. */
  info: number;
  /** Position in the file; a section without bytes in the file has only a size. */
  offset: number;
  size: number;
  hasBytes: boolean;
  /** Empty if the section has no bytes in the file. */
  content: Buffer;
}

/**
 * All sections in order, with the sizes and positions that the file claims. Errors: RangeError if the table is cut off.
 */
export function sectionHeaders(file: Buffer): SectionHeader[] {
  const table = Number(file.readBigUInt64LE(SECTION_TABLE.offset));
  const headers = Array.from({ length: file.readUInt16LE(SECTION_TABLE.count) }, (_, index) => {
    const header = file.subarray(table + index * SECTION_BYTES, table + (index + 1) * SECTION_BYTES);
    const [offset, size] = [SECTION.offset, SECTION.size].map((at) => Number(header.readBigUInt64LE(at))) as [
      number,
      number,
    ];
    const type = header.readUInt32LE(SECTION.type);
    const hasBytes = type !== NO_BITS;
    return {
      nameAt: header.readUInt32LE(SECTION.name),
      type,
      flags: Number(header.readBigUInt64LE(SECTION.flags)),
      link: header.readUInt32LE(SECTION.link),
      info: header.readUInt32LE(SECTION.info),
      offset,
      size,
      hasBytes,
      content: hasBytes ? file.subarray(offset, offset + size) : Buffer.alloc(0),
    };
  });
  const names = headers[file.readUInt16LE(SECTION_TABLE.names)]?.content ?? Buffer.alloc(0);
  return headers.map(({ nameAt, ...header }) => ({ name: textAt(names, nameAt), ...header }));
}

const textAt = (names: Buffer, start: number): string =>
  names.toString('latin1', start, start + textBytes(names, start));

function textBytes(names: Buffer, start: number): number {
  const from = names.subarray(start, start + MAX_NAME_BYTES);
  const end = from.indexOf(0);
  return end < 0 ? from.length : end;
}

/** Size of an entry in a 64-bit symbol table. */
const SYMBOL_BYTES = 24;
const SYMBOL = { name: 0, info: 4, other: 5, section: 6, size: 16 };
const TYPE_BITS = 0xf;
/** STO_CUDA_ENTRY */
const ENTRY_BIT = 0x10;

export interface CubinSymbol {
  name: string;
  /** STT_OBJECT is 1, STT_FUNC 2. */
  type: number;
  /** undefined if the symbol is defined elsewhere or in no section. */
  section: string | undefined;
  bytes: number;
  /** Whether it is a kernel. */
  isEntry: boolean;
}

/** How many bytes all symbols' names take together; several names may share the same bytes. */
export function symbolNameBytes(file: Buffer): number {
  const sections = sectionHeaders(file);
  const [table, names] = ['.symtab', '.strtab'].map((wanted) => sections.find(({ name }) => name === wanted)?.content);
  let bytes = 0;
  for (let at = 0; at + SYMBOL_BYTES <= (table?.length ?? 0); at += SYMBOL_BYTES)
    bytes += textBytes(names ?? Buffer.alloc(0), table!.readUInt32LE(at + SYMBOL.name));
  return bytes;
}

/** A cubin's symbols, in order, without the empty first one. */
export function symbolsOf(file: Buffer): CubinSymbol[] {
  const sections = allSections(file);
  const contentOf = (wanted: string): Buffer => sections.find(([name]) => name === wanted)?.[1] ?? Buffer.alloc(0);
  const [table, names] = [contentOf('.symtab'), contentOf('.strtab')];
  return Array.from({ length: Math.max(0, Math.floor(table.length / SYMBOL_BYTES) - 1) }, (_, index) => {
    const symbol = table.subarray((index + 1) * SYMBOL_BYTES, (index + 2) * SYMBOL_BYTES);
    const section = symbol.readUInt16LE(SYMBOL.section);
    return {
      name: textAt(names, symbol.readUInt32LE(SYMBOL.name)),
      type: symbol.readUInt8(SYMBOL.info) & TYPE_BITS,
      section: section === 0 ? undefined : sections[section]?.[0],
      bytes: Number(symbol.readBigUInt64LE(SYMBOL.size)),
      isEntry: (symbol.readUInt8(SYMBOL.other) & ENTRY_BIT) !== 0,
    };
  });
}

/** Bytes of an entry in a section of relocations, by the section's type: SHT_RELA and SHT_REL. */
const RELOCATION_BYTES: Readonly<Record<number, number>> = { 4: 24, 9: 16 };
const RELOCATION_SYMBOL = 12;

export const isRelocations = (type: number): boolean => RELOCATION_BYTES[type] !== undefined;

export interface CubinRelocation {
  /** The section that the driver patches with an address; undefined if its index is out of range. */
  target: SectionHeader | undefined;
  /** The symbol whose address the driver writes; undefined if its index is out of range. */
  symbol: CubinSymbol | undefined;
}

export function relocationsOf(file: Buffer): CubinRelocation[] {
  const sections = sectionHeaders(file);
  const symbols = symbolsOf(file);
  return sections.flatMap(({ type, info, content }) => {
    const bytes = RELOCATION_BYTES[type];
    return Array.from({ length: bytes === undefined ? 0 : Math.floor(content.length / bytes) }, (_, index) => ({
      target: sections[info],
      symbol: symbols[content.readUInt32LE(index * bytes! + RELOCATION_SYMBOL) - 1],
    }));
  });
}
