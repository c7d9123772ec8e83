import type { Machine } from './machine.ts';
import type { Statement, TracedLaunch } from './trace.ts';

/** The unit that an instruction occupies. */
export type Unit =
  | 'none'
  | 'alu'
  | 'fma'
  | 'multiply'
  | 'half'
  | 'special'
  | 'tensor'
  | 'shared'
  | 'sharedStore'
  | 'matrix'
  | 'global'
  | 'globalStore'
  | 'async'
  | 'shuffle'
  | 'commit'
  | 'wait'
  | 'barrier'
  | 'branch'
  | 'exit';

/** The timing of the instructions that ptxas makes from a statement. */
export interface Operation {
  unit: Unit;
  /** Issue slots; 0 if the statement vanishes or becomes part of another instruction. */
  slots: number;
  latency: number;
  /** Cycles for which the operation blocks its unit for the scheduler's next instruction. */
  interval: number;
  reads: number[];
  writes: number[];
  /** Bytes per lane. */
  bytes: number;
  /** For cp.async.wait_group, the number of groups that may be open. For a barrier, its number. */
  number: number;
  /** Number of warps that a barrier waits for; 0 means all. */
  warps: number;
}

/** Thrown for PTX for which the model has no time. */
export class NoTimeFor extends Error {
  override readonly name = 'NoTimeFor';
}

type Cost = Pick<Operation, 'unit' | 'slots' | 'latency'> & Partial<Operation>;

interface Instruction {
  statement: Statement;
  base: string;
  parts: string[];
  type: string;
  /** The statement that reads the result, if there is exactly one. */
  onlyReader: Statement | undefined;
  machine: Machine;
}

/** Costs of all statements of a kernel. Errors: NoTimeFor if a statement that is executed has no cost. */
export function operationsOf({ statements, blocks }: TracedLaunch, machine: Machine): Operation[] {
  const isExecuted = new Uint8Array(statements.length);
  for (const warp of blocks.flat()) for (const statement of warp.statements) isExecuted[statement] = 1;
  const accesses = statements.map(accessesOf);
  const readers = new Map<number, number[]>();
  accesses.forEach(({ reads }, n) => {
    for (const register of reads) {
      const known = readers.get(register);
      if (known) known.push(n);
      else readers.set(register, [n]);
    }
  });
  return statements.map((statement, n) => {
    const { reads, writes } = accesses[n]!;
    const parts = statement.op.split('.');
    const base = parts[0]!;
    const by = writes.flatMap((register) => readers.get(register) ?? []);
    const isDead = writes.length > 0 && by.length === 0 && base !== 'atom';
    const onlyReader = by.length === 1 ? statements[by[0]!] : undefined;
    const costs = (): Cost => costOf({ statement, base, parts, type: parts.at(-1)!, onlyReader, machine });
    const own = statement.op === '' || statement.isJoined ? FREE : costIf(isExecuted[n] === 1, costs);
    const cost = isDead ? FREE : own;
    return { interval: cost.slots, bytes: 0, number: 0, warps: 0, ...cost, reads, writes };
  });
}

const WITHOUT_RESULT = new Set(
  'st bra brx red cp stmatrix ret exit trap membar fence prefetch bar barrier nanosleep'.split(' '),
);

function accessesOf({ op, operands, guard }: Statement): { reads: number[]; writes: number[] } {
  const [base, kind] = op.split('.');
  const hasResult = !WITHOUT_RESULT.has(base!) && !(base === 'wmma' && kind === 'store');
  const [first, ...others] = operands;
  const isResult = hasResult && first !== undefined && first.kind !== 'address';
  const writes = isResult ? first.registers : [];
  const reads = (isResult ? others : operands).flatMap(({ registers }) => registers);
  // Lanes that the guard disables keep the old value, so the destination is also read.
  return { writes, reads: guard < 0 ? reads : [...reads, guard, ...writes] };
}

/** Statements that are never executed, such as a trap, need no known cost. */
function costIf(isExecuted: boolean, costs: () => Cost): Cost {
  try {
    return costs();
  } catch (error) {
    if (error instanceof NoTimeFor && !isExecuted) return FREE;
    throw error;
  }
}

const FREE: Cost = { unit: 'none', slots: 0, latency: 0 };

const ARITHMETIC = new Set('add sub mul mad fma mul24 mad24'.split(' '));
const LOGIC = new Set('and or xor not'.split(' '));
const SPECIAL = new Set('ex2 lg2 rcp rsqrt sqrt sin cos tanh'.split(' '));
const SIMPLE = new Set(
  'setp selp set slct min max prmt lop3 shf shr bfe bfi bfind popc clz brev sad dp4a dp2a copysign testp'.split(' '),
);
const HALVES = new Set('f16 f16x2 bf16 bf16x2'.split(' '));

function costOf(instruction: Instruction): Cost {
  const { statement, base, parts, type, machine } = instruction;
  if (base === 'mov') return moveCost(instruction);
  if (base === 'cvta' || base === 'neg' || base === 'abs') return FREE;
  if (ARITHMETIC.has(base)) return arithmeticCost(instruction);
  if (LOGIC.has(base) || base === 'shl') return logicCost(instruction);
  if (SIMPLE.has(base)) {
    const words = is64(type) ? 2 : 1;
    return { unit: 'alu', slots: words, latency: machine.alu + (base === 'setp' ? 1 : 0), interval: 2 * words };
  }
  if (base === 'cvt') return conversionCost(instruction);
  if (SPECIAL.has(base) || base === 'div' || base === 'rem') return specialCost(instruction);
  if (base === 'ld' || base === 'st' || base === 'atom' || base === 'red') return accessCost(instruction);
  if (base === 'ldmatrix' || base === 'stmatrix' || base === 'wmma' || base === 'mma') return matrixCost(instruction);
  if (base === 'cp' && parts[1] === 'async' && !parts.includes('bulk')) return copyCost(instruction);
  if (base === 'bar' || base === 'barrier') return barrierCost(instruction);
  if (base === 'shfl') return { unit: 'shuffle', slots: 1, latency: machine.shuffle, interval: machine.memoryInterval };
  if (['vote', 'activemask', 'match', 'redux', 'elect'].includes(base))
    return { unit: 'alu', slots: 1, latency: machine.vote, interval: 2 };
  if (base === 'bra' || base === 'brx') return { unit: 'branch', slots: 1, latency: 0 };
  if (base === 'ret' || base === 'exit') return { unit: 'exit', slots: 1, latency: 0 };
  if (base === 'membar' || base === 'fence') return { unit: 'alu', slots: 1, latency: 0 };
  throw new NoTimeFor(statement.op);
}

const is64 = (type: string): boolean => type.endsWith('64');

function moveCost({ statement: { operands }, machine }: Instruction): Cost {
  const from = operands[1];
  if (from?.kind === 'special') return { unit: 'alu', slots: 1, latency: machine.specialRegister, interval: 2 };
  if (from?.kind === 'vector') return { unit: 'alu', slots: 1, latency: machine.alu, interval: 2 };
  return FREE;
}

function arithmeticCost({ statement, base, parts, type, onlyReader, machine }: Instruction): Cost {
  if (HALVES.has(type)) return { unit: 'half', slots: 1, latency: machine.half };
  if (type === 'f32') return { unit: 'fma', slots: 1, latency: machine.fma };
  if (type === 'f64') throw new NoTimeFor(statement.op);
  const isWide = parts.includes('wide');
  // A wide multiplication and a 64-bit addition are one instruction, and so is an addition of three summands.
  if (base === 'mul' && isWide && onlyReader?.op.startsWith('add.s64')) return FREE;
  if (base === 'add' && onlyReader?.op === statement.op) return FREE;
  if (base.startsWith('m'))
    return { unit: 'multiply', slots: is64(type) && !isWide ? 3 : 1, latency: machine.fma + 0.5, interval: 2 };
  if (!is64(type)) return { unit: 'alu', slots: 1, latency: machine.alu, interval: 2 };
  const hasConstant = statement.operands.some(({ kind }) => kind === 'immediate');
  return { unit: 'alu', slots: hasConstant ? 2 : 1.5, latency: machine.alu + 2, interval: 3 };
}

/** Logic on three operands is one instruction, and shifts may be part of an addition. */
function logicCost({ base, type, onlyReader, machine }: Instruction): Cost {
  if (type === 'pred') return FREE;
  const reader = onlyReader?.op.split('.')[0] ?? '';
  if (LOGIC.has(base) && LOGIC.has(reader)) return FREE;
  if (base === 'shl' && (reader === 'add' || reader === 'or')) return FREE;
  const words = is64(type) ? 2 : 1;
  return { unit: 'alu', slots: words, latency: machine.alu, interval: base === 'shl' ? 2 : 2 * words };
}

const INTEGER = /^[us](8|16|32|64)$/;

function conversionCost({ parts, type, onlyReader, machine }: Instruction): Cost {
  const to = parts.at(-2)!;
  if (type === 'pair') return { unit: 'half', slots: 2, latency: machine.half };
  if (INTEGER.test(type) && INTEGER.test(to))
    return to === 's64' ? { unit: 'alu', slots: 1, latency: machine.alu, interval: 2 } : FREE;
  // One instruction converts and packs two values; its cost is that of the move to the pair.
  if (to === 'f16' && type === 'f32' && onlyReader?.op.startsWith('mov.b32')) return FREE;
  return { unit: 'half', slots: 1, latency: machine.convert, interval: 2 };
}

/**
 * Without .ftz, a comparison and two multiplications extend the functions' range. Quotients are computed from
 * reciprocals.
 */
function specialCost({ statement, base, parts, type, machine }: Instruction): Cost {
  const { specialFunction, specialFunctionInterval: interval } = machine;
  if (type === 'f64') throw new NoTimeFor(statement.op);
  if (base === 'div' && type === 'f32')
    return { unit: 'special', slots: parts.includes('full') ? 4 : 3, latency: specialFunction + 16, interval };
  if (base === 'div' || base === 'rem') return { unit: 'special', slots: 20, latency: 150, interval };
  const isPlain = parts.includes('ftz') || HALVES.has(type) || base === 'tanh';
  return { unit: 'special', slots: isPlain ? 1 : 4, latency: specialFunction + (isPlain ? 0 : 12), interval };
}

const isShared = (parts: readonly string[]): boolean => parts.some((part) => part.startsWith('shared'));

function accessCost({ statement, base, parts, machine }: Instruction): Cost {
  const interval = machine.memoryInterval;
  const bytes = statement.bytes || bytesOf(statement.op);
  if (base === 'atom') return { unit: 'global', slots: 1, latency: machine.globalLoad + 60, interval };
  if (base === 'ld') {
    if (parts.includes('param') || parts.includes('const')) return FREE;
    return isShared(parts)
      ? { unit: 'shared', slots: 1, latency: machine.sharedLoad, interval, bytes }
      : { unit: 'global', slots: 1, latency: machine.globalLoad, interval, bytes };
  }
  return { unit: isShared(parts) ? 'sharedStore' : 'globalStore', slots: 1, latency: 0, interval, bytes };
}

/** Bytes per lane. */
export function bytesOf(op: string): number {
  const parts = op.split('.');
  const bits = Number(/(\d+)$/.exec(parts.at(-1)!)?.[1] ?? 32);
  const lanes = [4, 2].find((count) => parts.includes(`v${count}`)) ?? 1;
  return (bits / 8) * lanes;
}

const M16N8K16 = 16 * 8 * 16;
/** Accesses of 8 bytes for wmma's accumulators. */
const ACCUMULATOR_ACCESSES = 4;

function matrixCost({ statement: { op }, base, parts, machine }: Instruction): Cost {
  const interval = machine.memoryInterval;
  const matrices: Cost = { unit: 'matrix', slots: 1, latency: machine.matrixLoad, interval };
  const stored: Cost = { unit: 'sharedStore', slots: 1, latency: 0, interval };
  const manyTimes = { slots: ACCUMULATOR_ACCESSES, interval: ACCUMULATOR_ACCESSES * interval };
  if (base === 'ldmatrix') return matrices;
  if (base === 'stmatrix') return stored;
  if (parts[1] === 'load')
    return parts.includes('c')
      ? { unit: 'shared', latency: machine.sharedLoad, bytes: 8 * ACCUMULATOR_ACCESSES, ...manyTimes }
      : matrices;
  if (parts[1] === 'store') return { ...stored, ...manyTimes };
  const [, m, n, k] = /m(\d+)n(\d+)k(\d+)/.exec(op) ?? [];
  const products = (Number(m) * Number(n) * Number(k)) / M16N8K16;
  if (!(products > 0)) throw new NoTimeFor(op);
  const busy = machine.mmaInterval * products;
  if (products > 1) return { unit: 'tensor', slots: products, latency: machine.mma + busy / 2, interval: busy };
  return { unit: 'tensor', slots: 1, latency: products < 1 ? machine.mma * 0.75 : machine.mma, interval: busy };
}

function copyCost({ statement: { op, operands }, machine }: Instruction): Cost {
  if (op.includes('commit_group')) return { unit: 'commit', slots: 1, latency: 0 };
  if (op.includes('wait_all')) return { unit: 'wait', slots: 1, latency: 0 };
  if (op.includes('wait_group')) return { unit: 'wait', slots: 1, latency: 0, number: operands[0]?.value ?? 0 };
  if (op.includes('mbarrier')) throw new NoTimeFor(op);
  return { unit: 'async', slots: 1, latency: machine.globalLoad, interval: machine.memoryInterval };
}

function barrierCost({ statement: { op, operands }, parts }: Instruction): Cost {
  if (parts.includes('warp')) return { unit: 'alu', slots: 1, latency: 0 };
  if (parts.includes('cluster') || parts.includes('arrive') || parts.includes('red')) throw new NoTimeFor(op);
  const [number, threads] = operands;
  return { unit: 'barrier', slots: 1, latency: 0, number: number?.value ?? 0, warps: (threads?.value ?? 0) / 32 };
}
