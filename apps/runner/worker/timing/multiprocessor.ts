import type { Filling } from '../messages/profiling.ts';
import { orderOf, type BlockOrder } from './block-order.ts';
import type { Machine } from './machine.ts';
import { operationsOf, type Operation, type Unit } from './operations.ts';
import type { TracedLaunch, WarpTrace } from './trace.ts';

/** A kernel in the form that the model steps through. */
export interface Program {
  operations: readonly Operation[];
  order: BlockOrder;
  machine: Machine;
}

/** The steps of a warp in the order of issue. */
interface Stream {
  statements: Uint32Array;
  passes: Uint16Array;
}

export type CtaStreams = readonly Stream[];

/** The streams of a traced block, in order of issue. */
const streamsOf = (program: Program, warps: readonly WarpTrace[]): CtaStreams =>
  warps.map((warp) => streamOf(program.order, warp));

function streamOf({ blockOf, orders, isConditional }: BlockOrder, { statements, passes }: WarpTrace): Stream {
  const issued: number[] = [];
  const issuedPasses: number[] = [];
  const stepOf = new Int32Array(blockOf.length).fill(-1);
  for (let from = 0, to = 0; from < statements.length; from = to) {
    const block = blockOf[statements[from]!]!;
    for (; to < statements.length && blockOf[statements[to]!] === block; to += 1) {
      if (to > from && statements[to]! <= statements[to - 1]!) break;
      stepOf[statements[to]!] = to;
    }
    for (const statement of orders[block]!) {
      const wasExecuted = stepOf[statement]! >= from;
      if (!wasExecuted && isConditional[statement] === 0) continue;
      issued.push(statement);
      issuedPasses.push(wasExecuted ? passes[stepOf[statement]!]! : 0);
    }
  }
  return { statements: Uint32Array.from(issued), passes: Uint16Array.from(issuedPasses) };
}

const SCHEDULERS = 4;
/** Cycles until a new CTA replaces one that has ended. */
const NEXT_CTA_CYCLES = 50;
const SECTORS_A_WAVEFRONT = 4;
const LANES = 32;
const NOWHERE = -1;

interface Cta {
  warps: Warp[];
  running: number;
  /** Warps at each barrier. */
  arrived: Map<number, number>;
}

interface Warp extends Stream {
  cta: Cta;
  scheduler: number;
  next: number;
  /** Earliest cycle of the warp's next issue. */
  from: number;
  /** For each register, the cycle from which it can be read. */
  readyAt: Float64Array;
  /** Cycles at which the open group of copies and the committed groups arrive. */
  copied: number;
  groups: number[];
  /** Number of the barrier at which the warp waits, or NOWHERE. */
  barrier: number;
}

/** Index of each unit that every scheduler has. Several units share an index. */
const UNIT_INDEX: Readonly<Record<Unit, number>> = {
  none: 0,
  alu: 1,
  fma: 2,
  multiply: 3,
  half: 4,
  special: 5,
  tensor: 6,
  shared: 7,
  sharedStore: 7,
  matrix: 7,
  global: 7,
  globalStore: 7,
  async: 7,
  shuffle: 7,
  commit: 0,
  wait: 0,
  barrier: 0,
  branch: 0,
  exit: 0,
};
const UNITS = 8;

/**
 * One multiprocessor with four schedulers. Each scheduler has its warps and issues an instruction, in order, when its
 * registers and its unit are ready. All schedulers share one pipe for shared memory and one path to L2.
 */
class Multiprocessor {
  readonly #program: Program;
  readonly #registers: number;
  readonly #schedulers: Warp[][] = Array.from({ length: SCHEDULERS }, () => []);
  readonly #unitFreeAt = Array.from({ length: SCHEDULERS }, () => new Float64Array(UNITS));
  readonly #slotFreeAt = new Float64Array(SCHEDULERS);
  #pipeFreeAt = 0;
  #l2FreeAt = 0;

  constructor(program: Program) {
    this.#program = program;
    this.#registers =
      1 + program.operations.reduce((most, { reads, writes }) => Math.max(most, ...reads, ...writes), -1);
  }

  /** Cycles until all CTAs have ended, with `residents` CTAs running at a time. */
  run(ctas: readonly CtaStreams[], residents: number): number {
    let end = 0;
    const waiting = [...ctas];
    const startNext = (cycle: number): void => {
      const streams = waiting.shift();
      if (streams) this.#start(streams, cycle);
    };
    for (let n = 0; n < residents; n += 1) startNext(0);
    for (let first = this.#first(); first; first = this.#first()) {
      const { warp, cycle } = first;
      if (warp.next < warp.statements.length) {
        this.#issue(warp, cycle);
        continue;
      }
      end = Math.max(end, cycle);
      this.#remove(warp);
      if (warp.cta.running === 0) startNext(cycle + NEXT_CTA_CYCLES);
    }
    return end;
  }

  #start(streams: CtaStreams, cycle: number): void {
    const cta: Cta = { warps: [], running: streams.length, arrived: new Map() };
    streams.forEach((stream, n) => {
      const warp: Warp = {
        ...stream,
        cta,
        scheduler: n % SCHEDULERS,
        next: 0,
        from: cycle,
        readyAt: new Float64Array(this.#registers),
        copied: 0,
        groups: [],
        barrier: NOWHERE,
      };
      cta.warps.push(warp);
      this.#schedulers[warp.scheduler]!.push(warp);
    });
  }

  #remove(warp: Warp): void {
    const warps = this.#schedulers[warp.scheduler]!;
    warps.splice(warps.indexOf(warp), 1);
    warp.cta.running -= 1;
    for (const number of warp.cta.arrived.keys()) this.#openIfFull(warp.cta, number, 0, warp.from);
  }

  /** The warp that can issue first; the oldest if several can. */
  #first(): { warp: Warp; cycle: number } | undefined {
    let warp: Warp | undefined;
    let cycle = Infinity;
    for (const warps of this.#schedulers)
      for (const each of warps) {
        if (each.barrier !== NOWHERE) continue;
        const at = Math.max(this.#canIssueAt(each), this.#slotFreeAt[each.scheduler]!);
        if (at < cycle) [warp, cycle] = [each, at];
      }
    return warp && { warp, cycle };
  }

  #canIssueAt(warp: Warp): number {
    const operation = this.#nextWithSlot(warp);
    if (!operation) return warp.from;
    const units = this.#unitFreeAt[warp.scheduler]!;
    let at = Math.max(warp.from, units[UNIT_INDEX[operation.unit]]!);
    for (const register of operation.reads) if (warp.readyAt[register]! > at) at = warp.readyAt[register]!;
    if (operation.unit !== 'wait') return at;
    const closed = warp.groups.slice(0, Math.max(0, warp.groups.length - operation.number));
    return closed.reduce((most, arrived) => Math.max(most, arrived), at);
  }

  /**
   * Skips operations without a slot, which take effect when their sources are ready, and returns the next one with a
   * slot.
   */
  #nextWithSlot(warp: Warp): Operation | undefined {
    for (; warp.next < warp.statements.length; warp.next += 1) {
      const operation = this.#program.operations[warp.statements[warp.next]!]!;
      if (operation.slots > 0) return operation;
      let ready = 0;
      for (const register of operation.reads) if (warp.readyAt[register]! > ready) ready = warp.readyAt[register]!;
      for (const register of operation.writes) warp.readyAt[register] = ready;
    }
    return undefined;
  }

  #issue(warp: Warp, cycle: number): void {
    const operation = this.#program.operations[warp.statements[warp.next]!]!;
    const passes = warp.passes[warp.next]!;
    const { slots, interval, unit, writes } = operation;
    warp.next += 1;
    warp.from = cycle + slots;
    this.#slotFreeAt[warp.scheduler] = cycle + slots;
    this.#unitFreeAt[warp.scheduler]![UNIT_INDEX[unit]] = cycle + interval;
    const ready = this.#complete(warp, operation, { cycle, passes });
    for (const register of writes) warp.readyAt[register] = ready;
  }

  /** Occupies the units that the multiprocessor has only once. Returns the cycle at which the result is ready. */
  #complete(warp: Warp, operation: Operation, { cycle, passes }: { cycle: number; passes: number }): number {
    const { unit, latency, slots, bytes, number } = operation;
    const { machine } = this.#program;
    switch (unit) {
      case 'shared':
        return this.#pipe(cycle, Math.max(passes, (bytes * LANES) / machine.returnedBytes)) - 1 + latency;
      case 'matrix':
        return this.#pipe(cycle, passes) - 1 + latency;
      case 'sharedStore':
        return this.#pipe(cycle, Math.max(1, passes));
      case 'shuffle':
        return this.#pipe(cycle, 1) - 1 + latency;
      case 'global':
        return this.#l2(cycle, passes) + latency;
      case 'globalStore':
        return this.#l2(cycle, passes);
      case 'async': {
        const arrived = this.#l2(cycle, passes) + latency;
        warp.copied = Math.max(warp.copied, arrived);
        return arrived;
      }
      case 'commit':
        warp.groups.push(warp.copied);
        warp.copied = 0;
        return cycle;
      case 'barrier':
        warp.barrier = number;
        warp.cta.arrived.set(number, (warp.cta.arrived.get(number) ?? 0) + 1);
        this.#openIfFull(warp.cta, number, operation.warps, cycle);
        return cycle;
      case 'branch':
        warp.from = cycle + machine.branch;
        return cycle;
      default:
        return cycle + latency + slots - 1;
    }
  }

  #openIfFull(cta: Cta, number: number, warps: number, cycle: number): void {
    const arrived = cta.arrived.get(number) ?? 0;
    if (arrived === 0 || arrived < (warps || cta.running)) return;
    cta.arrived.set(number, 0);
    for (const warp of cta.warps) {
      if (warp.barrier !== number) continue;
      warp.barrier = NOWHERE;
      warp.from = cycle + this.#program.machine.barrier;
    }
  }

  /** Cycle at which the load/store pipe has finished this many wavefronts. */
  #pipe(cycle: number, wavefronts: number): number {
    this.#pipeFreeAt = Math.max(cycle, this.#pipeFreeAt) + wavefronts;
    return this.#pipeFreeAt;
  }

  /** Cycle at which this many sectors have been transferred. */
  #l2(cycle: number, sectors: number): number {
    this.#pipe(cycle, Math.max(1, sectors / SECTORS_A_WAVEFRONT));
    this.#l2FreeAt = Math.max(cycle, this.#l2FreeAt) + sectors / this.#program.machine.sectors;
    return this.#l2FreeAt;
  }
}

const CAUSAL_CTAS = 8;

/** The CTAs to trace for a launch: one, or several spread over the grid if CTAs have different numbers of keys. */
export function blocksToTrace(ctas: number, causal: boolean): { first: number; step: number; count: number } {
  if (!causal) return { first: Math.floor(ctas / 2), step: 1, count: 1 };
  return { first: 0, step: Math.max(1, Math.floor((ctas - 1) / (CAUSAL_CTAS - 1))), count: CAUSAL_CTAS };
}

/** Rounds of successive CTAs that are walked; the remaining rounds are assumed to take as long. */
const WALKED_ROUNDS = 2;

/**
 * Cycles of the busiest multiprocessor, walked step by step from a few traced CTAs. Errors: NoTimeFor if the kernel
 * uses PTX for which the model has no time.
 */
export function kernelCycles(launch: TracedLaunch, machine: Machine, filling: Filling): number {
  const { statements, blocks } = launch;
  const { ctas, multiprocessors, residents, registers } = filling;
  if (blocks.length === 0) throw new RangeError('a trace without a block');
  const operations = operationsOf(launch, machine);
  const program = { operations, order: orderOf(statements, operations, registers), machine };
  const streams = blocks.map((warps) => streamsOf(program, warps));
  const cyclesOf = (chosen: typeof streams): number => new Multiprocessor(program).run(chosen, residents);
  const mostCtas = Math.ceil(ctas / multiprocessors);
  // Every CTA has a multiprocessor to itself, so the longest CTA decides.
  if (mostCtas === 1) return Math.max(...streams.map((stream) => cyclesOf([stream])));
  const walked = Math.min(mostCtas, WALKED_ROUNDS * residents);
  const chosen = Array.from({ length: walked }, (_, n) => streams[Math.floor((n * streams.length) / walked)]!);
  return (cyclesOf(chosen) * mostCtas) / walked;
}
