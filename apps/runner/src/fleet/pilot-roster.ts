import { hasTime, type LivePilot } from './live-pilot.ts';
import { fittest, type NodeWants } from './node-wants.ts';

/** Who is there: the pilots that have not ended, connected or away, and which of them are free. */
export class PilotRoster {
  /** By their number in the store: Slurm may give a job number again. */
  readonly #live = new Map<number, LivePilot>();

  all(): LivePilot[] {
    return [...this.#live.values()];
  }

  get(id: number): LivePilot | undefined {
    return this.#live.get(id);
  }

  /** Whether this is the pilot's present object: another stands for it once it has come back. */
  has(pilot: LivePilot): boolean {
    return this.#live.get(pilot.id) === pilot;
  }

  enter(pilot: LivePilot): void {
    this.#live.set(pilot.id, pilot);
  }

  remove(id: number): void {
    this.#live.delete(id);
  }

  clear(): void {
    this.#live.clear();
  }

  /** Pilots of a partition that are connected and stay. */
  connected(partition: string): number {
    // Asked with each job: no list is made of thousands.
    let count = 0;
    for (const one of this.#live.values()) if (one.partition === partition && one.link && !one.leaving) count += 1;
    return count;
  }

  /** Jobs of a partition that have a pilot. */
  runningJobs(partition: string): number {
    return this.all().filter((one) => one.partition === partition && one.work).length;
  }

  /** Whether a pilot is connected. */
  isConnected(id: number): boolean {
    return this.get(id)?.link !== undefined;
  }

  /** Whether a pilot takes jobs, or will when it is back. */
  stays(id: number): boolean {
    return this.get(id)?.leaving === false;
  }

  /** The partition's pilots that had no job since then, the longest idle first. */
  idleSince(partition: string, beforeMs: number): number[] {
    return this.#idle(partition)
      .filter(({ idleSinceMs }) => idleSinceMs <= beforeMs)
      .toSorted((a, b) => a.idleSinceMs - b.idleSinceMs)
      .map(({ id }) => id);
  }

  /** Whether a pilot has no job; one that has no time for another counts too. */
  hasIdle(partition: string): boolean {
    return this.#idle(partition).length > 0;
  }

  /** The free pilot for a job; undefined: it waits. Errors: COMPILER_MISSING. */
  freeFor(partition: string, wants: () => NodeWants): LivePilot | undefined {
    const free = this.#idle(partition).filter(hasTime);
    if (free.every(({ missing }) => missing.size === 0)) return free[0];
    // One that is away may come back.
    const all = this.all().filter((one) => one.partition === partition && !one.leaving);
    return fittest(wants(), { free, all, partition });
  }

  #idle(partition: string): LivePilot[] {
    return this.all().filter((one) => one.partition === partition && one.link && !one.leaving && !one.work);
  }
}
