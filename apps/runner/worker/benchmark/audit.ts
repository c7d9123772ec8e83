import { randomInt } from 'node:crypto';
import { type CudaDriver, type DevicePointer, type Handle } from '../driver/cuda-driver.ts';
import type { InputRotation, InputSet } from './input-rotation.ts';
import { EventPair } from './samplers.ts';

export interface AuditReport {
  /** What was wrong; undefined: nothing. */
  problem: string | undefined;
  /** Time of a row of launches whose inputs change under way, over that of a row whose inputs do not. */
  freshRatio: number;
}

/** A row of launches takes about this long. */
const ROW_US = 2_000;
const MIN_ROW = 8;
const MAX_ROW = 200;
/** A row that takes longer is not repeated as often. */
const SHORT_ROW_US = 20_000;
/** A row that takes longer is not run at all. */
const MAX_ROW_US = 400_000;
/** About what a store of one element takes in a graph. */
const STORE_US = 1.5;
const STORES_A_CHANGE = 4;
const MAX_CHANGES = 100;
/** A ratio above what is allowed is measured so often in all, where that is asked for. */
const RATIO_TRIES = 3;

/**
 * Looks for launches that leave work out, beside the timed ones: rows of back-to-back launches, as in a hot sample,
 * while the inputs change at the same time
 * in another branch of the graph, so that no gap between two launches tells of it.
 *
 * A kernel that finds its answer in O, in device globals or by a launch count leaves stale outputs: they are compared
 * with the reference. One that looks
 * whether its inputs changed is right, but slower where they did than where they did not: the ratio of the two tells.
 */
export class Audit {
  readonly #driver: CudaDriver;
  readonly #rotation: InputRotation;
  readonly #row: number;
  readonly #launchUs: number;
  readonly #scratch: DevicePointer;
  readonly #events: EventPair;

  /** Undefined where a launch takes too long to look. */
  static for(driver: CudaDriver, rotation: InputRotation, launchUs: number): Audit | undefined {
    const row = Math.max(MIN_ROW, Math.min(MAX_ROW, Math.round(ROW_US / launchUs)));
    return row * launchUs > MAX_ROW_US ? undefined : new Audit(driver, rotation, { row, launchUs });
  }

  private constructor(
    driver: CudaDriver,
    rotation: InputRotation,
    { row, launchUs }: { row: number; launchUs: number },
  ) {
    this.#driver = driver;
    this.#rotation = rotation;
    this.#row = row;
    this.#launchUs = launchUs;
    this.#scratch = driver.allocate(2);
    this.#events = new EventPair(driver);
  }

  run({ repeatAbove }: { repeatAbove: number }): AuditReport {
    const short = this.#row * this.#launchUs <= SHORT_ROW_US;
    const problem = this.#outputsAfterHiddenChanges(short ? 3 : 1);
    return { problem, freshRatio: leastRatio(() => this.#freshRatio(short ? 7 : 3), repeatAbove) };
  }

  close(): void {
    this.#events.close();
    this.#driver.free(this.#scratch);
  }

  /**
   * Changes every set once, early in a row, while launches run: after the row every output must be that of the new
   * inputs.
   */
  #outputsAfterHiddenChanges(rounds: number): string | undefined {
    for (let round = 0; round < rounds; ++round) {
      // Every launch lets at least one store of the branch go first: all are done long before the row's end.
      const delay = randomInt(Math.max(1, Math.floor(this.#row / 4)));
      const graph = this.#driver.captureFork(
        (branch) => {
          this.#idle(branch, delay);
          for (const set of this.#rotation.sets) set.fresh.change(branch);
        },
        () => this.#enqueue(this.#row + this.#rotation.sets.length * STORES_A_CHANGE),
      );
      this.#run(graph);
      const problem = this.#check();
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  /**
   * Median over an odd number of rounds of two rows each, which differ in where the branch stores: into the inputs, or
   * into nobody's memory. A kernel that looks
   * for changes is slower in every round; what else the machine does (on the emulator: anything) delays one row or the
   * other of some.
   */
  #freshRatio(rounds: number): number {
    const changes = Math.max(
      1,
      Math.min(MAX_CHANGES, Math.floor((this.#row * this.#launchUs) / (STORES_A_CHANGE * STORE_US))),
    );
    const ratios: number[] = [];
    for (let round = 0; round < rounds; ++round) {
      const changing = this.#driver.captureFork(
        (branch) => this.#changeAll(branch, changes),
        (join) => this.#enqueueAndJoin(join),
      );
      const still = this.#driver.captureFork(
        (branch) => this.#idle(branch, changes * STORES_A_CHANGE),
        (join) => this.#enqueueAndJoin(join),
      );
      // Each in turn is first.
      const [first, second] = round % 2 === 0 ? [changing, still] : [still, changing];
      const times = new Map([first, second].map((graph) => [graph, this.#run(graph)]));
      ratios.push(times.get(changing)! / times.get(still)!);
    }
    return ratios.sort((a, b) => a - b)[rounds >> 1]!;
  }

  #changeAll(branch: Handle, changes: number): void {
    for (let change = 0; change < changes; ++change)
      this.#rotation.sets[change % this.#rotation.sets.length]!.fresh.change(branch);
  }

  #idle(branch: Handle, stores: number): void {
    for (let store = 0; store < stores; ++store) this.#driver.fill16(this.#scratch, store & 0xffff, 1, branch);
  }

  #enqueue(launches: number): InputSet[] {
    return Array.from({ length: launches }, () => this.#rotation.enqueueNext());
  }

  /** The last launches see the inputs as they stay. */
  #enqueueAndJoin(join: () => void): void {
    this.#enqueue(this.#row);
    join();
    this.#enqueue(this.#rotation.sets.length);
  }

  /** Runs a graph once; microseconds. */
  #run(graph: Handle): number {
    const us = this.#events.time(() => this.#driver.launchGraph(graph));
    this.#driver.destroyGraph(graph);
    return us;
  }

  #check(): string | undefined {
    return this.#rotation.sets.map((set) => this.#rotation.check(set)).find((problem) => problem !== undefined);
  }
}

/**
 * The first ratio that is not above the limit, else the least of a few: what keeps results is slow on new inputs every
 * time, a machine with other work is not.
 */
export function leastRatio(measure: () => number, limit: number): number {
  let least = measure();
  for (let tries = 1; tries < RATIO_TRIES && least > limit; ++tries) least = Math.min(least, measure());
  return least;
}
