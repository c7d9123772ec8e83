/** Memory of a build that outlives a launch: a launch could leave in it what a later one reads. */
import { create } from '@bufbuild/protobuf';
import { FindingKind, FindingSchema, type Finding } from '@flashcore/shared/contract';
import { symbolsOf, type CubinSymbol } from './cubin-code.ts';

/** In sections that the driver makes device memory of; constant banks and shared memory have others. */
const GLOBAL_SECTION = /^\.nv\.global(?:\.|$)/;
const OBJECT = 1;
const FUNCTION = 2;
const PTX_COMMENT = /\/\*[^*]*(?:\*(?!\/)[^*]*)*\*\/|\/\/[^\n]*/g;
/**
 * A declaration up to its size, value or end; `ld.global` and `.param .ptr .global` are none. Spaces are single, and
 * PTX wants none between words that begin with a dot.
 */
const PTX_VARIABLES =
  /(?:(?<![\w.]|\.ptr )|(?<=(?<![\w.])\.(?:visible|weak|extern|common)))\.global(?=[ .])([^;={[]*)((?:\[[^\];{}]{0,40}\]? ?)*)/g;
const PTX_FUNCTIONS = /(?<![\w.])\.extern ?\.func ?(?:\([^)]*\) ?)?([\w$]+)/g;
const PTX_NAME = /[\w$%]+(?= ?$)/;
const MOST_NAMED = 8;
/** CUDA's headers have a few dozen objects of one byte, Triton a text of eleven. */
const MOST_UNUSED_BYTES = 64;
const FEW_BYTES = /\.[bsu]8 [\w$%]+ ?(?:\[(\d{1,2})\] ?)?$/;
/** From a variable's size to the end of its declaration, where that declares no other one. */
const ALONE = /^ ?(?:= ?(?:\{[^{};]{0,400}\}|[\w.+-]{1,40}) ?)?;/;

/**
 * "counter (4 bytes)" or "malloc()", in the order of the cubin's symbols. A cubin has the address of every object,
 * whether or not code uses it. With the PTX that it was assembled from, small objects are left out that it names only
 * to declare them, such as those of CUDA's <cuda/std> headers.
 */
export function stateInCubin(file: Buffer, ptx?: string): string[] {
  const symbols = symbolsOf(file);
  const isState = ({ type, section }: CubinSymbol): boolean =>
    section !== undefined && GLOBAL_SECTION.test(section) && type === OBJECT;
  const uses = ptx === undefined ? undefined : mentions(ptx);
  const unused = symbols.filter((symbol) => isState(symbol) && uses?.get(symbol.name) === 1);
  // More could be worth looking for without a name, by its distance from the code.
  const leftOut = unused.reduce((sum, { bytes }) => sum + bytes, 0) <= MOST_UNUSED_BYTES ? new Set(unused) : undefined;
  return symbols.flatMap((symbol) => {
    const { name, type, section, bytes } = symbol;
    if (section === undefined) return type === FUNCTION ? [`${name}()`] : [];
    return isState(symbol) && !leftOut?.has(symbol) ? [`${name} (${bytes} bytes)`] : [];
  });
}

/**
 * How often a text has each name. Comments and strings count: whatever a reader could take for one of them and ptxas
 * for code is a use.
 */
function mentions(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [name] of text.matchAll(/[\w$%]+/g)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** The same of PTX alone. */
export function stateInPtx(text: string): string[] {
  const plain = text.replaceAll(PTX_COMMENT, ' ').replaceAll(/\s+/g, ' ');
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

/** Undefined: the build keeps none. */
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
