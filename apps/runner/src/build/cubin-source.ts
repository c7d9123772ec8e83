/** Checks a cubin that another compiler made before anything else reads it, and reads its entries. */
import { isCubinSource } from '@flashcore/shared/kernels';
import {
  SECTION_BYTES,
  SECTION_TABLE,
  sectionHeaders,
  symbolNameBytes,
  symbolsOf,
  type SectionHeader,
} from './cubin-code.ts';
import type { CompileUnit, DeviceCode } from './compile-unit.ts';
import type { Compiler } from './compilers.ts';
import type { CompilerDiagnostic } from './diagnostics.ts';
import { infoRecords } from './entry-parameters.ts';
import type { PtxasEntry } from './ptxas-report.ts';
import { MAX_ENTRIES, shownPath, type SnapshotFile } from './source-snapshot.ts';

const HEADER_BYTES = 64;
const HEADER = { magic: 0, classAndOrder: 4, abi: 8, type: 16, machine: 18, flags: 48, sectionBytes: 58 };
const ELF_MAGIC = 0x464c457f;
/** 64 bits, little-endian. */
const ELF_64_LITTLE = 0x0102;
const CUDA_MACHINE = 190;
const EXECUTABLE = 2;
const RELOCATABLE = 1;
const FATBIN_MAGIC = 0xba55ed50;
/**
 * Version of the ABI before CUDA 13, with the compute capability in the lowest byte of the flags. Since CUDA 13 it is
 * in the next byte.
 */
const OLD_ABI = 7;

/** Each entry has about six sections. */
const MAX_SECTIONS = 10_000;
const MAX_SYMBOL_NAMES_BYTES = 4 * 2 ** 20;

export interface CubinSourceOptions extends Pick<DeviceCode, 'arch' | 'files' | 'unit' | 'name'> {
  /** A compiler of this host. It is not run; it only identifies the host. */
  compiler: Compiler;
}

/** The unit of a cubin; no compiler runs for it. */
export const cubinSourceUnit = ({ compiler, arch, files, unit, name }: CubinSourceOptions): CompileUnit => ({
  compiler,
  target: arch,
  files,
  stages: [],
  outputs: [{ path: unit, fileName: `${name}.${arch}.cubin`, kind: 'cubin' }],
  limitMs: 1000,
});

/** Why a build's cubin is refused; empty for other sources. */
export function cubinProblems(files: readonly SnapshotFile[], arch: string): CompilerDiagnostic[] {
  const [source] = files;
  if (!source || !isCubinSource(source.path)) return [];
  const message = cubinFault(Buffer.from(source.text, 'latin1'), arch);
  const place = { severity: 'error', file: shownPath(source.path), line: 0, column: 0, tool: 'runner' } as const;
  return message === undefined ? [] : [{ ...place, message }];
}

/**
 * Why a cubin is refused for this architecture. Takes time proportional to the file's size, whatever the file contains.
 */
export function cubinFault(file: Buffer, arch: string): string | undefined {
  if (file.length >= 4 && file.readUInt32LE(0) === FATBIN_MAGIC)
    return 'must be a cubin, got a fat binary: `cuobjdump -xelf all FILE` extracts its cubins';
  if (
    file.length < HEADER_BYTES ||
    file.readUInt32LE(HEADER.magic) !== ELF_MAGIC ||
    file.readUInt16LE(HEADER.classAndOrder) !== ELF_64_LITTLE ||
    file.readUInt16LE(HEADER.machine) !== CUDA_MACHINE
  )
    return 'must be a cubin (an ELF file for CUDA), as nvcc -cubin and ptxas write it, got another kind of file';
  const type = file.readUInt16LE(HEADER.type);
  if (type !== EXECUTABLE)
    return `must be a linked cubin, got ${type === RELOCATABLE ? 'a relocatable one: compile without -dc or -rdc=true' : `an ELF file of type ${type}`}`;
  return layoutFault(file) ?? archFault(file, arch);
}

function layoutFault(file: Buffer): string | undefined {
  const count = file.readUInt16LE(SECTION_TABLE.count);
  const end = Number(file.readBigUInt64LE(SECTION_TABLE.offset)) + count * SECTION_BYTES;
  if (file.readUInt16LE(HEADER.sectionBytes) !== SECTION_BYTES || count === 0 || end > file.length)
    return `must have its section table inside the file of ${file.length} bytes, got ${count} sections up to byte ${end}: is it cut off?`;
  if (count > MAX_SECTIONS) return `must have at most ${MAX_SECTIONS} sections, got ${count}`;
  if (file.readUInt16LE(SECTION_TABLE.names) >= count)
    return 'must name its sections, and the table of names is absent';
  const sections = sectionHeaders(file);
  const outside = sections.find(({ offset, size, hasBytes }) => hasBytes && offset + size > file.length);
  if (outside)
    return `must have its sections inside the file of ${file.length} bytes, got ${shown(outside)} up to byte ${outside.offset + outside.size}: is it cut off?`;
  // Limits the sum, because sections that overlap could make reading them take quadratic time.
  const bytes = sections.reduce((sum, { size, hasBytes }) => sum + (hasBytes ? size : 0), 0);
  if (bytes > file.length)
    return `must have sections that do not overlap, got ${bytes} bytes of sections in a file of ${file.length} bytes`;
  if (symbolNameBytes(file) > MAX_SYMBOL_NAMES_BYTES)
    return `must have at most ${MAX_SYMBOL_NAMES_BYTES} bytes of symbols' names`;
  const functions = sections.filter(({ name }) => name.startsWith('.text.')).length;
  return functions > MAX_ENTRIES
    ? `must have at most ${MAX_ENTRIES} entries and functions, got ${functions}`
    : undefined;
}

const shown = ({ name }: SectionHeader): string => JSON.stringify(name.slice(0, 80));

/** A cubin runs on devices of its compute capability's major version, from its minor version up. */
function archFault(file: Buffer, arch: string): string | undefined {
  const flags = file.readUInt32LE(HEADER.flags);
  const built = file[HEADER.abi]! <= OLD_ABI ? flags & 0xff : (flags >>> 8) & 0xff;
  const wanted = Number(/\d+/.exec(arch)?.[0]);
  return Math.floor(built / 10) === Math.floor(wanted / 10) && built <= wanted
    ? undefined
    : `is built for sm_${built}, and this build is for ${arch}: compile it for ${arch}, or name the PTX that it was assembled from as the source`;
}

const REGISTERS = 0x2f;
const FRAME = 0x11;
/**
 * From sm_90 on, a CTA's static shared memory begins with this many bytes for the system, which ptxas does not report.
 */
const RESERVED_SHARED_BYTES = 1024;
const FIRST_WITH_RESERVED = 90;

/** The kernels of a cubin, with the figures that ptxas would report, except spills, which a cubin does not show. */
export function cubinEntries(file: Buffer, arch: string): PtxasEntry[] {
  const sections = new Map(sectionHeaders(file).map((section) => [section.name, section]));
  const symbols = symbolsOf(file);
  const figures = new Map<string, number>();
  for (const { attribute, value } of infoRecords(sections.get('.nv.info')?.content ?? Buffer.alloc(0)))
    if ((attribute === REGISTERS || attribute === FRAME) && value.length === 8)
      figures.set(`${attribute} ${symbols[value.readUInt32LE(0) - 1]?.name}`, value.readUInt32LE(4));
  const reserved = Number(/\d+/.exec(arch)?.[0]) >= FIRST_WITH_RESERVED ? RESERVED_SHARED_BYTES : 0;
  return symbols
    .filter(({ isEntry, section }) => isEntry && section !== undefined)
    .map(({ name }) => ({
      entry: name,
      arch,
      registers: figures.get(`${REGISTERS} ${name}`) ?? 0,
      staticSmemBytes: Math.max(0, (sections.get(`.nv.shared.${name}`)?.size ?? 0) - reserved),
      spillStoreBytes: 0,
      spillLoadBytes: 0,
      stackBytes: figures.get(`${FRAME} ${name}`) ?? 0,
      barriers: 0,
      constantBytes: sections.get(`.nv.constant0.${name}`)?.size ?? 0,
    }));
}
