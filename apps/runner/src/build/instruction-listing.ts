/**
 * Lists instructions by source line, from PTX or from nvdisasm's output. Reading takes linear time, and the listing has
 * a bounded size.
 */
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  InstructionListingSchema,
  type InstructionBlockSchema,
  type InstructionListing,
} from '@flashcore/shared/contract';
import { plainLine } from '@flashcore/shared/text';
import { codeFrame, type Place, type SourceText } from './diagnostics.ts';

const MAX_INSTRUCTIONS = 20_000;
const MAX_INSTRUCTION_CHARACTERS = 160;
const MAX_SOURCE_LINES = 4_000;
/** How many nested inlined calls are followed. */
const MAX_CALLS = 64;
/** Maximum number of distinct callers that are kept for a line. */
const MAX_CALLERS = 32;

export interface ListedCode {
  text: string;
  /**
   * The functions to list, in order: the key is the name in the code, the value the name to show. The PTX functions
   * that they may call are listed after them.
   */
  names: ReadonlyMap<string, string>;
}

/** A function of the code, with its instructions in the order of the text. */
interface ListedFunction {
  symbol: string;
  isEntry: boolean;
  instructions: ListedInstruction[];
}

interface ListedInstruction {
  text: string;
  place: InlinedPlace;
}

/** A source line, whether its file is the kernel's or one of its shared headers, and the call that inlined it. */
interface InlinedPlace extends SourceFile {
  line: number;
  caller?: InlinedPlace | undefined;
}

const NOWHERE: InlinedPlace = { file: '', isKernels: false, line: 0 };

/** Lists PTX as nvcc, clang and Triton write it, with one directive or instruction per line. */
export const ptxListing = (files: readonly ListedCode[], sources: readonly SourceText[]): InstructionListing =>
  listingOf(
    files.flatMap(({ text, names }) => wantedBlocks(new PtxReader().read(text), names)),
    sources,
  );

/** Lists the output of `nvdisasm -gi -c` for cubins. */
export const sassListing = (files: readonly ListedCode[], sources: readonly SourceText[]): InstructionListing =>
  listingOf(
    files.flatMap(({ text, names }) => wantedBlocks(sassFunctions(text), names)),
    sources,
  );

type Block = MessageInitShape<typeof InstructionBlockSchema>;

function wantedBlocks(functions: readonly ListedFunction[], names: ListedCode['names']): Block[] {
  const wanted = [
    ...[...names.keys()].flatMap((symbol) => functions.filter((each) => each.isEntry && each.symbol === symbol)),
    ...functions.filter(({ isEntry }) => !isEntry),
  ];
  return wanted.flatMap(({ symbol, instructions }) => {
    const name = plainLine(names.get(symbol) ?? symbol).slice(0, MAX_INSTRUCTION_CHARACTERS);
    return blocksOf(instructions).map((block) => ({ ...block, function: name }));
  });
}

/** Neighboring instructions of the same source line. */
function blocksOf(instructions: readonly ListedInstruction[]): Block[] {
  const lines = linesInKernel(instructions.map(({ place }) => place));
  const blocks: Block[] = [];
  for (const { text, place } of instructions) {
    const { file, line } = lines.get(place)!;
    const last = blocks.at(-1);
    if (last?.file === file && last.line === line) last.instructions!.push(text);
    else blocks.push({ file, line, instructions: [text] });
  }
  return blocks;
}

function listingOf(all: readonly Block[], sources: readonly SourceText[]): InstructionListing {
  const kept: Block[] = [];
  let [count, leftOut] = [0, 0];
  for (const block of all) {
    const instructions = (block.instructions ?? []).slice(0, MAX_INSTRUCTIONS - count);
    leftOut += (block.instructions ?? []).length - instructions.length;
    count += instructions.length;
    if (instructions.length > 0) kept.push({ ...block, instructions });
  }
  return create(InstructionListingSchema, { blocks: kept, lines: sourceLines(kept, sources), leftOut });
}

function sourceLines(places: readonly { file?: string; line?: number }[], sources: readonly SourceText[]) {
  const named = new Map(places.map(({ file = '', line = 0 }) => [`${file}:${line}`, { file, line }]));
  return [...named.values()]
    .filter(({ line }) => line > 0)
    .sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line)
    .slice(0, MAX_SOURCE_LINES)
    .map((place) => ({ ...place, text: lineText(sources, { ...place, column: 0 }) }));
}

function lineText(sources: readonly SourceText[], place: Place): string {
  const frame = codeFrame(sources, place);
  return frame?.lines[place.line - frame.firstLine] ?? '';
}

function addInstruction(of: ListedFunction, text: string, place: InlinedPlace): void {
  of.instructions.push({ text: plainLine(text.replaceAll(/\s+/g, ' ')).slice(0, MAX_INSTRUCTION_CHARACTERS), place });
}

/** The place and the calls that inlined it, innermost first. */
function callsOf(place: InlinedPlace): InlinedPlace[] {
  const chain = [place];
  while (chain.length < MAX_CALLS && chain.at(-1)!.caller) chain.push(chain.at(-1)!.caller!);
  return chain;
}

type SourceLine = Pick<InlinedPlace, 'file' | 'line'>;

/** The innermost line in the file of the outermost call, if the `skipped` outermost calls are left out. */
function lineWithin(place: InlinedPlace, skipped: number): SourceLine | undefined {
  const calls = callsOf(place);
  const left = calls.slice(0, Math.max(0, calls.length - skipped));
  if (skipped > 0 && !left.at(-1)?.isKernels) return undefined;
  return left.find((each) => each.file === left.at(-1)!.file && each.line > 0);
}

/** The share of a function's instructions from which on a line counts as the call of everything. */
const CALLS_NEARLY_ALL = 0.9;

/**
 * The lines that the emulator attributes its counts to (lines_in_kernel in ptx/parse.cpp): lines of the kernel's own
 * file, or of a called function's file where a single line calls nearly all of the code.
 */
function linesInKernel(places: readonly InlinedPlace[]): ReadonlyMap<InlinedPlace, SourceLine> {
  const counts = new Map<InlinedPlace, number>();
  for (const place of places) counts.set(place, (counts.get(place) ?? 0) + 1);
  const lines = [...counts].map(([place, count]) => ({ place, count, skipped: 0, line: lineWithin(place, 0) }));
  const known = sumOf(lines.filter(({ line }) => line));
  for (let changed = true; changed;) {
    changed = false;
    const sums = new Map<string, number>();
    for (const { line, count } of lines) if (line) sums.set(textOf(line), (sums.get(textOf(line)) ?? 0) + count);
    const [text] = [...sums].find(([, sum]) => sum >= CALLS_NEARLY_ALL * known) ?? [];
    for (const each of lines) {
      if (!each.line || textOf(each.line) !== text) continue;
      let inner: SourceLine | undefined = each.line;
      while (inner && textOf(inner) === text) inner = lineWithin(each.place, ++each.skipped);
      if (!inner) continue;
      each.line = inner;
      changed = true;
    }
  }
  return new Map(lines.map(({ place, line = NOWHERE }) => [place, line]));
}

const textOf = ({ file, line }: SourceLine): string => `${file}:${line}`;
const sumOf = (lines: readonly { count: number }[]): number => lines.reduce((sum, { count }) => sum + count, 0);

interface SourceFile {
  file: string;
  isKernels: boolean;
}

/** The path as the kernel folder names it, or only the file name if the file is elsewhere. */
function sourceFile(path: string): SourceFile {
  const inside = /(?:^|.*\/)kernels?\/(.+)$/.exec(path)?.[1];
  return { file: inside ?? path.slice(path.lastIndexOf('/') + 1), isKernels: inside !== undefined };
}

/** Compilers write shorter lines than this. Longer lines are cut, so that reading stays linear. */
const MAX_LINE_CHARACTERS = 2_000;
const linesOf = (text: string): string[] => text.split('\n').map((line) => line.slice(0, MAX_LINE_CHARACTERS).trim());

const FILE = /^\.file\s+(\d+)\s+"(.*)"/;
const LOC = /^\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?/;
const FUNCTION = /^(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)/;
const IN_COMMENT = /@\[ ([^\s:]+(?::[^\s:]+)*):(\d+):\d+/g;

class PtxReader {
  readonly #files = new Map<string, SourceFile>();
  /** The callers told apart for each "file:line:column", the latest last. */
  readonly #byPosition = new Map<string, InlinedPlace[]>();
  readonly #functions: ListedFunction[] = [];
  #place: InlinedPlace = NOWHERE;
  #inside: ListedFunction | undefined;
  /** Depth of nested scopes in the function's body. */
  #depth = 0;
  /** A function whose body has not begun yet. */
  #declared: ListedFunction | undefined;

  read(text: string): ListedFunction[] {
    const lines = linesOf(text);
    // Reads the names of files first, because compilers write them after the code.
    for (const line of lines) {
      const [, number, path] = FILE.exec(line) ?? [];
      if (number !== undefined) this.#files.set(number, sourceFile(path!));
    }
    for (const line of lines) this.#line(line);
    return this.#functions;
  }

  #line(line: string): void {
    const [, kind, symbol] = FUNCTION.exec(line) ?? [];
    if (symbol !== undefined) this.#declared = { symbol, isEntry: kind === 'entry', instructions: [] };
    else if (line.startsWith('.loc')) this.#loc(line);
    const code = line.split('//', 1)[0]!.trim();
    if (this.#inside === undefined) return this.#outside(code);
    // Inline assembly may open scopes, whose braces may be on the same line as an instruction.
    this.#depth += code.split('{').length - code.split('}').length;
    if (this.#depth < 0) this.#inside = undefined;
    else {
      const instruction = withoutScope(code).replace(/;$/, '');
      if (instruction !== '' && !instruction.startsWith('.')) addInstruction(this.#inside, instruction, this.#place);
    }
  }

  #outside(line: string): void {
    if (this.#declared === undefined) return;
    if (line.endsWith('{')) {
      this.#inside = this.#declared;
      this.#functions.push(this.#inside);
      this.#place = NOWHERE;
      this.#depth = 0;
      this.#declared = undefined;
    } else if (line.endsWith(';')) this.#declared = undefined;
  }

  #loc(text: string): void {
    const [, number, line, column, ofFile, ofLine, ofColumn] = LOC.exec(text) ?? [];
    // clang writes line 0 for an instruction that it moved; the previous line is kept.
    if (number === undefined || Number(line) === 0) return;
    const caller = ofFile === undefined ? this.#callerInComment(text) : this.#at(ofFile, ofLine!, ofColumn!);
    this.#place = this.#known(number, line!, column!, caller);
  }

  #known(number: string, line: string, column: string, caller?: InlinedPlace): InlinedPlace {
    const position = `${number}:${line}:${column}`;
    const all = this.#byPosition.get(position) ?? [];
    const known = all.find((each) => each.caller === caller);
    if (known) return known;
    const place = { ...(this.#files.get(number) ?? NOWHERE), line: Number(line), caller };
    this.#byPosition.set(position, [...all, place].slice(-MAX_CALLERS));
    return place;
  }

  /**
   * The place of a call, which nvcc names by its line alone. If the calling function was itself inlined at several
   * places, that means the place that has the most calls in common with the preceding instruction (ptx/parse.cpp).
   */
  #at(number: string, line: string, column: string): InlinedPlace {
    const all = this.#byPosition.get(`${number}:${line}:${column}`) ?? [];
    if (all.length <= 1) return all[0] ?? this.#known(number, line, column);
    const calls = new Set(callsOf(this.#place));
    let [best, most] = [all.at(-1)!, 0];
    for (const place of all) {
      const common = callsOf(place).filter((each) => calls.has(each)).length;
      if (common > most) [best, most] = [place, common];
    }
    return best;
  }

  /**
   * Triton names callers only in a comment: `// standard.py:290:36 @[ kernel.py:14:25 ]`. The outermost caller is last.
   */
  #callerInComment(text: string): InlinedPlace | undefined {
    let caller: InlinedPlace | undefined;
    for (const [, file, line] of [...text.matchAll(IN_COMMENT)].slice(-MAX_CALLS).reverse())
      caller = { ...sourceFile(file!), line: Number(line), caller };
    return caller;
  }
}

/**
 * Removes the braces of a scope, which are at the start or end of a line; a vector's opening brace follows other text.
 */
const withoutScope = (code: string): string =>
  code.slice(code.startsWith('{') ? 1 : 0, code.endsWith('}') ? -1 : undefined).trim();

const SECTION = /^\.section\s+\.text\.([\w$.]+)/;
const LINE_NOTE = /^\/\/## File "([^"]*)", line (\d+)( inlined at )?/;
const INSTRUCTION = /^\/\*[\da-f]+\*\/\s+(.*?)\s*;?\s*$/;
const LABEL = /^(?:\.L_\w+|\$[\w$]+):$/;

function sassFunctions(text: string): ListedFunction[] {
  const functions: ListedFunction[] = [];
  let place: InlinedPlace = NOWHERE;
  /** The notes before an instruction: the innermost source location first, then the calls that inlined it. */
  let notes: InlinedPlace[] = [];
  let isOpen = false;
  for (const line of linesOf(text)) {
    const symbol = SECTION.exec(line)?.[1];
    if (symbol !== undefined) {
      functions.push({ symbol, isEntry: true, instructions: [] });
      place = NOWHERE;
    }
    const inside = functions.at(-1);
    const [, path, number, inlined] = LINE_NOTE.exec(line) ?? [];
    if (path !== undefined) {
      if (!isOpen) notes = [];
      if (notes.length < MAX_CALLS) notes.push({ ...sourceFile(path), line: Number(number) });
      isOpen = inlined !== undefined;
      place = notes.reduceRight((caller: InlinedPlace | undefined, note) => ({ ...note, caller }), undefined)!;
    }
    const instruction = INSTRUCTION.exec(line)?.[1];
    // Leaves out NOPs, which pad the section.
    if (inside && instruction !== undefined && instruction !== 'NOP') addInstruction(inside, instruction, place);
    else if (inside && LABEL.test(line)) addInstruction(inside, line, place);
  }
  return functions;
}
