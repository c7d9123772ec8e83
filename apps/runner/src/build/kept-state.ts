/** Memory of a build that outlives a launch, so that a launch could pass data to a later one. */
import { create } from '@bufbuild/protobuf';
import { FindingKind, FindingSchema, type Finding } from '@flashcore/shared/contract';
import {
  isRelocations,
  relocationsOf,
  sectionHeaders,
  symbolsOf,
  type CubinSymbol,
  type SectionHeader,
} from './cubin-code.ts';
import type { Listing } from './disassembly.ts';

/** Sections that the driver places in device memory. Constant banks and shared memory are in other sections. */
const GLOBAL_SECTION = /^\.nv\.global(?:\.|$)/;
const OBJECT = 1;
const FUNCTION = 2;
const PTX_TOKEN = /(?<comment>\/\*[^*]*(?:\*(?!\/)[^*]*)*\*\/|\/\/[^\n]*)|(?<quoted>"[^"]*")|\s+|[\w$%.]+|[^]/y;
/**
 * A declaration up to its size, value or end; `ld.global` and `.param .ptr .global` are not declarations. The text has
 * single spaces, and PTX requires none between words that begin with a dot.
 */
const PTX_VARIABLES =
  /(?:(?<![\w.]|\.ptr )|(?<=(?<![\w.])\.(?:visible|weak|extern|common)))\.global(?=[ .])([^;={[]*)((?:\[[^\];{}]{0,40}\]? ?)*)/g;
const PTX_FUNCTIONS = /(?<![\w.])\.extern ?\.func ?(?:\([^)]*\) ?)?([\w$]+)/g;
const PTX_NAME = /[\w$%]+(?= ?$)/;
const MOST_NAMED = 8;
/**
 * Enough for CUDA's headers, which have a few dozen one-byte objects, and for Triton, which has a text of eleven bytes.
 */
const MOST_UNUSED_BYTES = 64;
const FEW_BYTES = /\.[bsu]8 [\w$%]+ ?(?:\[(\d{1,2})\] ?)?$/;
/** The text from a variable's size to the end of its declaration, if the declaration has no other variable. */
const ALONE = /^ ?(?:= ?(?:\{[^{};]{0,400}\}|[\w.+-]{1,40}) ?)?;/;

/**
 * A cubin's state, such as "counter (4 bytes)" or "malloc()", in the order of its symbols. A cubin has the address of
 * every object, whether or not code uses it. If the cubin's PTX is given, small objects that the PTX declares but does
 * not use are left out, such as those of CUDA's <cuda/std> headers.
 */
export function stateInCubin(file: Buffer, ptx?: string): string[] {
  const symbols = symbolsOf(file);
  const isState = ({ type, section }: CubinSymbol): boolean =>
    section !== undefined && GLOBAL_SECTION.test(section) && type === OBJECT;
  const uses = ptx === undefined ? undefined : mentions(ptx);
  const unused = symbols.filter((symbol) => isState(symbol) && uses?.get(symbol.name) === 1);
  // Above this size, unused objects are listed too: a kernel could find them by their distance from the code and use
  // them.
  const leftOut = unused.reduce((sum, { bytes }) => sum + bytes, 0) <= MOST_UNUSED_BYTES ? new Set(unused) : undefined;
  return symbols.flatMap((symbol) => {
    const { name, type, section, bytes } = symbol;
    if (section === undefined) return type === FUNCTION ? [`${name}()`] : [];
    return isState(symbol) && !leftOut?.has(symbol) ? [`${name} (${bytes} bytes)`] : [];
  });
}

/** Code and constants, which the driver loads but a launch can't write. */
const CODE_OR_CONSTANT = /^\.(?:text\.|nv\.constant\d)/;
const OF_A_LAUNCH = /^\.nv\.(?:shared|local)\./;
const FLAGS = { write: 1, allocated: 2, executable: 4 };

/** Sections for which the driver allocates memory that outlives a launch and that a launch can write. */
const stateSections = (sections: readonly SectionHeader[]): SectionHeader[] =>
  sections.filter(({ name, flags, size }) => {
    const isKnown = OF_A_LAUNCH.test(name) || (CODE_OR_CONSTANT.test(name) && (flags & FLAGS.write) === 0);
    return (flags & FLAGS.allocated) !== 0 && size > 0 && !isKnown;
  });

/**
 * The state of a cubin that was made elsewhere. If no symbol names a variable, because symbols may have been removed,
 * the sections are listed: the driver allocates memory only for sections. Variables of a few bytes whose address no
 * instruction of the listing reads are left out, such as Triton's `_$_str`.
 */
export function stateInForeignCubin(file: Buffer, listing?: Listing): string[] {
  const banks = addressBanks(file);
  const isUnused =
    banks !== undefined && listing !== undefined && 'text' in listing && !readsBanks(listing.text, banks);
  if (isUnused) return [];
  const named = stateInCubin(file);
  if (named.length > 0) return named;
  return stateSections(sectionHeaders(file)).map(({ name, size }) => `section ${name} (${size} bytes)`);
}

/** SHT_PROGBITS, and SHT_CUDA_CONSTANT0, which older toolkits give to bank 0 and its successors to the next banks. */
const PROGRAM_BITS = 1;
const FIRST_BANK = 0x7000_0064;
const ADDRESS_BANK = /^\.nv\.constant(\d{1,2})(?:\.|$)/;
/** How relocations are applied; it has none itself. */
const RELOCATION_KINDS = '.nv.rel.action';

/**
 * Numbers of the constant banks that hold addresses of a cubin's variables. Undefined if the cubin has no variables, if
 * they have more than a few bytes, or if code may get their addresses in another way.
 */
export function addressBanks(file: Buffer): ReadonlySet<number> | undefined {
  const sections = sectionHeaders(file);
  const variables = stateSections(sections);
  const bytes = variables.reduce((sum, { size }) => sum + size, 0);
  if (bytes === 0 || bytes > MOST_UNUSED_BYTES) return undefined;
  const unknown = sections.some(
    ({ name, type }) => /rela?\b/.test(name) && !isRelocations(type) && name !== RELOCATION_KINDS,
  );
  const tables = [...sections.keys()].filter((index) => sections[index]!.name === '.symtab');
  // symbolsOf() reads the first table of that name. Relocations that use another table would name other symbols.
  const otherTable = sections.some(({ type, link }) => isRelocations(type) && link !== tables[0]);
  if (unknown || tables.length !== 1 || otherTable) return undefined;
  if (symbolsOf(file).some(({ type, section }) => type === FUNCTION && section === undefined)) return undefined;
  const names = new Set(variables.map(({ name }) => name));
  const banks = new Set<number>();
  for (const { target, symbol } of relocationsOf(file)) {
    if (target !== undefined && isDebugInformation(target)) continue;
    if (symbol?.section !== undefined && !names.has(symbol.section)) continue;
    const bank = Number(ADDRESS_BANK.exec(target?.name ?? '')?.[1] ?? NaN);
    if (Number.isNaN(bank) || ![PROGRAM_BITS, FIRST_BANK + bank].includes(target!.type)) return undefined;
    banks.add(bank);
  }
  return banks;
}

/** Not in the memory of a launch, and not code, whatever its flags say. */
const isDebugInformation = ({ name, flags }: SectionHeader): boolean =>
  /^\.(?:debug|nv_debug)/.test(name) && (flags & (FLAGS.allocated | FLAGS.executable)) === 0;

/** Operands such as `c[0x4][0x8]`, and those whose bank is not written in the instruction. */
const BANK = /\bc\[0x([0-9a-f]{1,2})\]/g;
const UNKNOWN_BANK = /\bcx\[|\bc\[(?!0x)|\bU?LDC\S*\.I(?:L|SL?)\b/;

/** Whether an instruction of a listing in SASS reads, or may read, one of these banks of constants. */
function readsBanks(listing: Buffer, banks: ReadonlySet<number>): boolean {
  const text = listing.toString('latin1');
  if (UNKNOWN_BANK.test(text)) return true;
  return [...text.matchAll(BANK)].some(([, bank]) => banks.has(Number.parseInt(bank!, 16)));
}

/**
 * How often a text contains each name. Comments and strings are included, so that nothing that ptxas reads as code is
 * missed.
 */
function mentions(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [name] of text.matchAll(/[\w$%]+/g)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/**
 * PTX without comments and quoted texts. A quoted text ends where the emulator ends it (ptx/parse.cpp); otherwise code
 * between two quoted texts could be taken for a comment.
 */
function codeOf(ptx: string): string {
  const parts: string[] = [];
  const before = ['', ''];
  const token = new RegExp(PTX_TOKEN);
  for (let match = token.exec(ptx); match; match = token.exec(ptx)) {
    const { 0: all, groups } = match;
    const { comment, quoted } = groups!;
    parts.push(comment === undefined && quoted === undefined ? all : ' ');
    if (quoted !== undefined && before[0] === '.file' && /^\d/.test(before[1]!))
      token.lastIndex = endOfPath(ptx, token.lastIndex);
    if (comment === undefined && all.trim() !== '') before.splice(0, 2, before[1]!, all);
  }
  return parts.join('');
}

/**
 * Where a path ends. Quotes inside a path are not escaped: if text follows the first closing quote, the path ends at
 * the last quote on the line.
 */
function endOfPath(ptx: string, at: number): number {
  if (!/[\w$%]/.test(ptx.charAt(at))) return at;
  const lineEnd = ptx.indexOf('\n', at);
  const last = ptx.lastIndexOf('"', lineEnd < 0 ? ptx.length : lineEnd);
  return last < at ? at : last + 1;
}

/** The state that PTX shows, for builds without a cubin. */
export function stateInPtx(text: string): string[] {
  const plain = codeOf(text).replaceAll(/\s+/g, ' ');
  const uses = mentions(text);
  const declared = [...plain.matchAll(PTX_VARIABLES)].flatMap(
    ({ 0: all, 1: declaration = '', 2: size = '', index }) => {
      const name = PTX_NAME.exec(declaration)?.[0];
      if (name === undefined) return [];
      const few = FEW_BYTES.exec(`${declaration}${size}`);
      const end = index + all.length;
      const isUnused = uses.get(name) === 1 && few !== null && ALONE.test(plain.slice(end, end + 500));
      return { name, unusedBytes: isUnused ? Number(few[1] ?? 1) : undefined };
    },
  );
  const leavesOut = declared.reduce((sum, { unusedBytes = 0 }) => sum + unusedBytes, 0) <= MOST_UNUSED_BYTES;
  const variables = declared
    .filter(({ unusedBytes }) => unusedBytes === undefined || !leavesOut)
    .map(({ name }) => name);
  const functions = [...plain.matchAll(PTX_FUNCTIONS)].map(([, name]) => `${name}()`);
  return [...variables, ...functions];
}

/** undefined if the build keeps no state. */
export function keepsStateFinding(state: readonly string[]): Finding | undefined {
  const more = state.length > MOST_NAMED ? ` and ${state.length - MOST_NAMED} more` : '';
  return state.length === 0
    ? undefined
    : create(FindingSchema, {
        kind: FindingKind.KEEPS_STATE,
        message: `the build has memory that outlives a launch: ${state.slice(0, MOST_NAMED).join(', ')}${more}`,
        remedy:
          'Declare counters, semaphores and scratch memory as a workspace with an initial value in kernel.yaml, make tables __constant__, and leave out assert(), printf() and malloc()',
      });
}
