/**
 * The output of ptxas -v about one entry. Spills of called functions are included, because they cost a launch just as
 * much.
 */
export interface PtxasEntry {
  entry: string;
  /** For example "sm_89". */
  arch: string;
  registers: number;
  staticSmemBytes: number;
  spillStoreBytes: number;
  spillLoadBytes: number;
  /** Stack bytes of the deepest chain of calls. */
  stackBytes: number;
  barriers: number;
  constantBytes: number;
}

/** An entry whose static shared memory exceeds what a CTA can have without an opt-in. */
export interface SmemExcess {
  entry: string;
  bytes: number;
  limitBytes: number;
}

const COMPILING = /^ptxas info\s*: Compiling entry function '([^']+)' for '(sm_\w+)'/;
// NVRTC's ptxas prints its own name first.
const FRAME = /^(?:ptxas\s+\.)?\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads/;
const USED = /^ptxas info\s*: Used (\d+) registers(.*)$/;
const TOO_MUCH =
  /^ptxas error\s*: Entry function '([^']+)' uses too much shared data \(0x([0-9a-f]+) bytes, 0x([0-9a-f]+) max\)/;

/**
 * Parses the report of `nvcc -Xptxas -v`: one element per entry, in the compiler's order. The report lists an entry's
 * properties, then those of the functions that it calls at any depth.
 */
export function parsePtxasReport(lines: readonly string[]): PtxasEntry[] {
  const entries: PtxasEntry[] = [];
  let current: PtxasEntry | undefined;
  for (const line of lines) {
    const compiling = COMPILING.exec(line);
    if (compiling) {
      current = {
        entry: compiling[1]!,
        arch: compiling[2]!,
        registers: 0,
        staticSmemBytes: 0,
        spillStoreBytes: 0,
        spillLoadBytes: 0,
        stackBytes: 0,
        barriers: 0,
        constantBytes: 0,
      };
      entries.push(current);
      continue;
    }
    if (!current) continue;
    const frame = FRAME.exec(line);
    if (frame) {
      current.stackBytes = Math.max(current.stackBytes, Number(frame[1]));
      current.spillStoreBytes += Number(frame[2]);
      current.spillLoadBytes += Number(frame[3]);
    }
    const used = USED.exec(line);
    if (!used) continue;
    Object.assign(current, { registers: Number(used[1]) }, usedResources(used[2]!));
    current.stackBytes = Math.max(current.stackBytes, Number(/(\d+) bytes cumulative stack size/.exec(line)?.[1] ?? 0));
  }
  return entries;
}

function usedResources(rest: string): Pick<PtxasEntry, 'staticSmemBytes' | 'barriers' | 'constantBytes'> {
  const constants = [...rest.matchAll(/(\d+) bytes cmem\[\d+\]/g)].reduce((sum, match) => sum + Number(match[1]), 0);
  return {
    barriers: Number(/used (\d+) barriers/.exec(rest)?.[1] ?? 0),
    staticSmemBytes: Number(/(\d+) bytes smem/.exec(rest)?.[1] ?? 0),
    constantBytes: constants,
  };
}

/** Entries that ptxas refused because of their shared memory. */
export function parseSmemExcess(lines: readonly string[]): SmemExcess[] {
  return lines.flatMap((line) => {
    const match = TOO_MUCH.exec(line);
    return match ? [{ entry: match[1]!, bytes: parseInt(match[2]!, 16), limitBytes: parseInt(match[3]!, 16) }] : [];
  });
}
