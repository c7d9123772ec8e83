/**
 * Trace of the warps on the emulator's PTX engine, as flashcore_emulator_trace returns it (libs/emulator/ptx/trace.h).
 */

export interface TracedOperand {
  kind: string;
  /** Value of an immediate, or offset of an address. */
  value: number;
  name: string;
  registers: number[];
}

/** A PTX statement. */
export interface Statement {
  /** The opcode with its dotted suffixes; empty if there is nothing to execute. */
  op: string;
  operands: TracedOperand[];
  /** Register number of the predicate, or -1. */
  guard: number;
  /** Index of the statement that a branch goes to, or -1. */
  target: number;
  isLabel: boolean;
  /** Whether this access was merged into another access to shared memory. */
  isJoined: boolean;
  /**
   * Bytes per lane, including the accesses merged into this one; 0 if no access was merged, so the op's own size
   * applies.
   */
  bytes: number;
}

/** One warp: the statement of each step, with its wavefronts in shared memory or its sectors of global memory. */
export interface WarpTrace {
  statements: Uint32Array;
  passes: Uint16Array;
}

export interface TracedLaunch {
  statements: Statement[];
  /** Blocks, each with its warps. */
  blocks: WarpTrace[][];
}

const STATEMENT_BITS = 20;
const WORD_BYTES = 4;

/** Reads the trace of one launch, which the candidate's process wrote. Errors: RangeError, TypeError, SyntaxError. */
export function readTrace(bytes: Buffer): TracedLaunch {
  let at = 0;
  const word = (): number => bytes.readUInt32LE((at += WORD_BYTES) - WORD_BYTES);
  const jsonBytes = word();
  if (jsonBytes > bytes.length - at) throw new RangeError('a trace is shorter than it says');
  const statements = statementsOf(JSON.parse(bytes.toString('utf8', at, at + jsonBytes)));
  at += jsonBytes;
  const warpOf = (): WarpTrace => {
    const steps = word();
    if (steps > (bytes.length - at) / WORD_BYTES) throw new RangeError('a trace is shorter than it says');
    const warp = { statements: new Uint32Array(steps), passes: new Uint16Array(steps) };
    for (let n = 0; n < steps; n += 1) {
      const step = word();
      warp.statements[n] = step & ((1 << STATEMENT_BITS) - 1);
      warp.passes[n] = step >>> STATEMENT_BITS;
      if (warp.statements[n]! >= statements.length) throw new RangeError('a trace has a step of no statement');
    }
    return warp;
  };
  const blocks: WarpTrace[][] = [];
  for (let left = word(); left > 0; left -= 1) {
    const warps: WarpTrace[] = [];
    for (let more = word(); more > 0; more -= 1) warps.push(warpOf());
    blocks.push(warps);
  }
  return { statements, blocks };
}

function statementsOf(json: unknown): Statement[] {
  if (!Array.isArray(json)) throw new TypeError('must be an array of statements');
  return (json as Record<string, unknown>[]).map((each) => {
    const operands = each['operands'];
    if (!Array.isArray(operands)) throw new TypeError('must be a statement with its operands');
    return {
      op: String(each['op']),
      operands: (operands as Record<string, unknown>[]).map((operand) => ({
        kind: String(operand['kind']),
        value: Number(operand['value']),
        name: String(operand['name']),
        registers: registersOf(operand['registers']),
      })),
      guard: wholeNumber(each['guard']),
      target: wholeNumber(each['target']),
      isLabel: each['isLabel'] === true,
      isJoined: each['isJoined'] === true,
      bytes: wholeNumber(each['bytes']),
    };
  });
}

function registersOf(value: unknown): number[] {
  if (!Array.isArray(value)) throw new TypeError('must be an array of registers');
  return value.map(wholeNumber);
}

const MOST = 1 << 24;

function wholeNumber(value: unknown): number {
  if (!Number.isInteger(value) || Math.abs(value as number) > MOST) throw new TypeError('must be a whole number');
  return value as number;
}
