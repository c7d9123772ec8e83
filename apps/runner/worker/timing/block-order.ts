import { bytesOf, type Operation, type Unit } from './operations.ts';
import type { Statement } from './trace.ts';

/** A kernel's basic blocks in the order in which their instructions are issued. */
export interface BlockOrder {
  /** The basic block of each statement. */
  blockOf: Int32Array;
  orders: number[][];
  /** Whether each statement uses an issue slot even if the trace jumped over it. */
  isConditional: Uint8Array;
}

/** A branch over at most this many slots is removed, and the statements it would skip become conditional. */
const MOST_CONDITIONAL_SLOTS = 7;
const ENDS_BLOCK = new Set<Unit>(['branch', 'exit']);

/**
 * Models how ptxas reorders a kernel, as far as is known. Branches over a few instructions become conditions. Inside a
 * basic block, loads go first and then the longest chain, as long as there are registers. Changes `operations`.
 */
export function orderOf(statements: readonly Statement[], operations: Operation[], registers: number): BlockOrder {
  const { isConditional, joins } = makeConditional(statements, operations);
  const blockOf = new Int32Array(statements.length);
  const orders: number[][] = [];
  let members: number[] = [];
  const close = (): void => {
    if (members.length > 0) orders.push(new ListSchedule(members, statements, operations).order(registers));
    members = [];
  };
  statements.forEach((statement, n) => {
    if (statement.isLabel && !joins.has(n)) close();
    members.push(n);
    blockOf[n] = orders.length;
    if (ENDS_BLOCK.has(operations[n]!.unit)) close();
  });
  close();
  return { blockOf, orders, isConditional };
}

function makeConditional(statements: readonly Statement[], operations: Operation[]) {
  const isConditional = new Uint8Array(statements.length);
  const branchesTo = Map.groupBy(
    statements.filter(({ target }) => target >= 0),
    ({ target }) => target,
  );
  const removedTo = new Map<number, number>();
  statements.forEach(({ op, guard, target }, n) => {
    if (guard < 0 || target <= n || !op.startsWith('bra')) return;
    const over = Array.from({ length: target - n - 1 }, (_, k) => n + 1 + k);
    const staysBranch = over.some(
      (m) =>
        statements[m]!.isLabel ||
        ENDS_BLOCK.has(operations[m]!.unit) ||
        operations[m]!.unit === 'barrier' ||
        operations[m]!.unit === 'wait',
    );
    const slots = over.reduce((sum, m) => sum + operations[m]!.slots, 0);
    if (staysBranch || slots > MOST_CONDITIONAL_SLOTS) return;
    for (const m of over) {
      isConditional[m] = 1;
      const operation = operations[m]!;
      operation.reads = [...operation.reads, guard, ...operation.writes];
    }
    operations[n] = { ...operations[n]!, unit: 'none', slots: 0, interval: 0, reads: [], writes: [] };
    removedTo.set(target, (removedTo.get(target) ?? 0) + 1);
  });
  const joins = new Set([...removedTo].filter(([to, count]) => branchesTo.get(to)?.length === count).map(([to]) => to));
  return { isConditional, joins };
}

const STORES = new Set<Unit>(['globalStore', 'sharedStore', 'async']);
const SHARED = new Set<Unit>(['shared', 'matrix', 'sharedStore', 'async']);
const GLOBAL = new Set<Unit>(['global', 'globalStore']);
const FENCES = new Set<Unit>(['barrier', 'commit', 'wait']);

/** Registers taken by addresses and the like. */
const RESERVED_REGISTERS = 12;
const FEWEST_REGISTERS = 24;

/** List scheduling of one basic block. */
class ListSchedule {
  readonly #members: readonly number[];
  readonly #statements: readonly Statement[];
  readonly #operations: readonly Operation[];
  /** For each statement, the statements that wait for it, and how many cycles after its issue. */
  readonly #next: { to: number; cycles: number }[][];
  readonly #waitsFor: Int32Array;

  constructor(members: readonly number[], statements: readonly Statement[], operations: readonly Operation[]) {
    this.#members = members;
    this.#statements = statements;
    this.#operations = members.map((n) => operations[n]!);
    this.#next = members.map(() => []);
    this.#waitsFor = new Int32Array(members.length);
    this.#orderByRegisters();
    this.#orderByMemory();
  }

  /** The statements in their order of issue. */
  order(registers: number): number[] {
    const operations = this.#operations;
    const heights = this.#heights();
    const last = ENDS_BLOCK.has(operations.at(-1)!.unit) ? operations.length - 1 : -1;
    const pressure = new Pressure(operations);
    const limit = Math.max(FEWEST_REGISTERS, registers - RESERVED_REGISTERS);
    const earliest = new Float64Array(operations.length);
    const waitsFor = this.#waitsFor.slice();
    const ready = operations.flatMap((_, i) => (waitsFor[i] === 0 ? [i] : []));
    const issued: number[] = [];
    let now = 0;
    const scoreOf = (i: number): number => {
      // Operations without a slot go at once. Then the longest chain goes first; among equal chains, the first in the
      // source.
      if (operations[i]!.slots === 0) return Infinity;
      const wait = earliest[i]! - now;
      const growth = pressure.growth(i);
      const isTooMuch = growth > 0 && pressure.live + growth > limit;
      return heights[i]! - i * 1e-4 - (wait > 0 ? 1e3 + 10 * wait : 0) - (isTooMuch ? 1e5 + i : 0);
    };
    while (ready.length > 0) {
      let best = 0;
      let bestScore = -Infinity;
      ready.forEach((i, place) => {
        const score = i === last ? -Number.MAX_VALUE : scoreOf(i);
        if (score > bestScore) [best, bestScore] = [place, score];
      });
      const [i] = ready.splice(best, 1) as [number];
      now = Math.max(now, earliest[i]!);
      pressure.issue(i);
      for (const { to, cycles } of this.#next[i]!) {
        earliest[to] = Math.max(earliest[to]!, now + cycles);
        waitsFor[to]! -= 1;
        if (waitsFor[to] === 0) ready.push(to);
      }
      now += operations[i]!.slots;
      issued.push(this.#members[i]!);
    }
    return issued;
  }

  #after(from: number, to: number, cycles: number): void {
    this.#next[from]!.push({ to, cycles });
    this.#waitsFor[to]! += 1;
  }

  #orderByRegisters(): void {
    const writer = new Map<number, number>();
    const readers = new Map<number, number[]>();
    this.#operations.forEach(({ reads, writes }, i) => {
      for (const register of reads) {
        const from = writer.get(register);
        if (from !== undefined && from !== i) this.#after(from, i, this.#operations[from]!.latency);
        readers.set(register, [...(readers.get(register) ?? []), i]);
      }
      for (const register of writes) {
        for (const from of readers.get(register) ?? []) if (from !== i) this.#after(from, i, 0);
        const from = writer.get(register);
        if (from !== undefined && from !== i) this.#after(from, i, 1);
        writer.set(register, i);
        readers.set(register, []);
      }
    });
  }

  #orderByMemory(): void {
    let accesses: number[] = [];
    let fence = -1;
    this.#operations.forEach(({ unit }, i) => {
      const isFence = FENCES.has(unit);
      if (!isFence && !SHARED.has(unit) && !GLOBAL.has(unit)) return;
      if (fence >= 0) this.#after(fence, i, 0);
      for (const before of accesses) if (isFence || this.#mayMeet(before, i)) this.#after(before, i, 0);
      if (isFence) [accesses, fence] = [[], i];
      else accesses.push(i);
    });
  }

  #mayMeet(a: number, b: number): boolean {
    const [first, second] = [this.#operations[a]!.unit, this.#operations[b]!.unit];
    if (!STORES.has(first) && !STORES.has(second)) return false;
    if (first === 'async' && second === 'async') return false;
    if (!(SHARED.has(first) && SHARED.has(second)) && !(GLOBAL.has(first) && GLOBAL.has(second))) return false;
    const [one, other] = [this.#addressOf(a), this.#addressOf(b)];
    if (one === undefined || other === undefined || one.base !== other.base) return true;
    return one.offset < other.offset + other.bytes && other.offset < one.offset + one.bytes;
  }

  #addressOf(i: number) {
    const { op, operands, bytes } = this.#statements[this.#members[i]!]!;
    const address = operands.find(({ kind }) => kind === 'address');
    return (
      address && {
        base: String(address.registers[0] ?? address.name),
        offset: address.value,
        bytes: bytes || bytesOf(op),
      }
    );
  }

  /** Cycles from each operation's issue to the end of the block. */
  #heights(): Float64Array {
    const heights = new Float64Array(this.#operations.length);
    for (let i = this.#operations.length - 1; i >= 0; i -= 1) {
      const { slots } = this.#operations[i]!;
      heights[i] = this.#next[i]!.reduce(
        (most, { to, cycles }) => Math.max(most, heights[to]! + Math.max(cycles, slots)),
        slots,
      );
    }
    return heights;
  }
}

/** Number of registers in use while a block is ordered. */
class Pressure {
  live = 0;
  readonly #operations: readonly Operation[];
  readonly #readsLeft = new Map<number, number>();
  readonly #isLive = new Set<number>();

  constructor(operations: readonly Operation[]) {
    this.#operations = operations;
    for (const { reads } of operations)
      for (const register of reads) this.#readsLeft.set(register, (this.#readsLeft.get(register) ?? 0) + 1);
    const written = new Set(operations.flatMap(({ writes }) => writes));
    for (const register of this.#readsLeft.keys()) if (!written.has(register)) this.#isLive.add(register);
    this.live = this.#isLive.size;
  }

  /** Change of the number of used registers when operation i issues. */
  growth(i: number): number {
    const { reads, writes } = this.#operations[i]!;
    const ended = new Set(
      reads.filter((register) => this.#readsLeft.get(register) === reads.filter((each) => each === register).length),
    );
    return writes.length - ended.size;
  }

  issue(i: number): void {
    const { reads, writes } = this.#operations[i]!;
    for (const register of reads) {
      const left = this.#readsLeft.get(register)! - 1;
      this.#readsLeft.set(register, left);
      if (left === 0 && this.#isLive.delete(register)) this.live -= 1;
    }
    for (const register of writes) {
      if (this.#isLive.has(register) || !this.#readsLeft.get(register)) continue;
      this.#isLive.add(register);
      this.live += 1;
    }
  }
}
