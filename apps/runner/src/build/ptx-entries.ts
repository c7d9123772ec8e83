/** Resources of PTX's entry points, for builds without a ptxas report, and whether code uses tensor cores. */
import type { SmemExcess } from './ptxas-report.ts';

export interface PtxEntry {
  entry: string;
  /** Static shared memory that the entry declares, plus the module's arrays that the entry names. */
  staticSmemBytes: number;
}

/** ptxas's limit on static shared memory. More is possible only as dynamic shared memory, with an opt-in. */
const STATIC_SMEM_LIMIT_BYTES = 48 * 1024;

const ENTRY = /^(?:\.visible |\.weak )?\.entry (\w+)\(/;
const SHARED =
  /^\s*(?:\.visible |\.weak )?\.shared (?:\.attribute\([^)\n]{0,100}\) )?(?:\.align (\d+) )?\.b8 (\w+)\[(\d+)\];/;
const NAME = /[\w$]+/g;

/** Parses PTX as clang formats it: one directive per line, and a function's closing brace at the start of a line. */
export function readPtxEntries(text: string): PtxEntry[] {
  const ofModule = new Map<string, number>();
  const found: { entry: string; own: number; named: Set<string> }[] = [];
  let inside: (typeof found)[number] | undefined;
  for (const line of text.split('\n')) {
    const entry = ENTRY.exec(line)?.[1];
    if (entry !== undefined) found.push((inside = { entry, own: 0, named: new Set() }));
    else if (line === '}') inside = undefined;
    else {
      const shared = SHARED.exec(line);
      const bytes = shared ? Number(shared[3]) : 0;
      if (shared && inside) inside.own = roundedUp(inside.own, Number(shared[1] ?? 1)) + bytes;
      else if (shared) ofModule.set(shared[2]!, bytes);
      else if (inside && ofModule.size > 0)
        for (const [name] of line.matchAll(NAME)) if (ofModule.has(name)) inside.named.add(name);
    }
  }
  return found.map(({ entry, own, named }) => ({
    entry,
    staticSmemBytes: own + [...named].reduce((sum, name) => sum + ofModule.get(name)!, 0),
  }));
}

const roundedUp = (bytes: number, alignment: number): number => Math.ceil(bytes / alignment) * alignment;

/** The entries that ptxas would refuse because of their static shared memory. */
export const smemExcessOf = (entries: readonly PtxEntry[]): SmemExcess[] =>
  entries
    .filter(({ staticSmemBytes }) => staticSmemBytes > STATIC_SMEM_LIMIT_BYTES)
    .map(({ entry, staticSmemBytes }) => ({ entry, bytes: staticSmemBytes, limitBytes: STATIC_SMEM_LIMIT_BYTES }));

const TENSOR_INSTRUCTION = /\b(?:mma\.(?:sync|sp)|wmma\.mma|wgmma\.mma_async|tcgen05\.mma)\b/;
// An instruction, WMMA, or a library of templates. "comma" and "execute" are not.
const LEADS_TO_TENSOR_CORES = /(?<![a-z])(?:w|wg)?mma|tcgen05|nvcuda|cutlass|\bcute\b/i;

/** Whether PTX has an instruction of tensor cores. */
export const hasTensorInstruction = (ptx: string): boolean => TENSOR_INSTRUCTION.test(ptx);

/** False if nothing in a source can lead to tensor cores. True says only that it may. */
export const mayUseTensorCores = (source: string): boolean => LEADS_TO_TENSOR_CORES.test(source);
