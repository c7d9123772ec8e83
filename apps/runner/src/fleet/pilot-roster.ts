import { hasTime, type LivePilot } from './live-pilot.ts';
import { fittest, type NodeWants } from './node-wants.ts';

/** The pilots that have not ended, connected or away, and which of them are free. */
export class PilotRoster {
  /** By id in the store, because Slurm may reuse a job number. */
  readonly #live = new Map<number, LivePilot>();

  all(): LivePilot[] {
    return [...this.#live.values()];
  }

  get(id: number): LivePilot | undefined {
    return this.#live.get(id);
  }

  /** Whether this is the pilot's current object; a pilot that comes back gets a new one. */
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

  /** The number of connected pilots in a partition that are not leaving. */
  connected(partition: string): number {
    // Called for each job, so it does not build a list of thousands.
    let count = 0;
    for (const one of this.#live.values()) if (one.partition === partition && one.link && !one.leaving) count += 1;
    return count;
  }

  /** The number of a partition's jobs that have a pilot. */
  runningJobs(partition: string): number {
    return this.all().filter((one) => one.partition === partition && one.work).length;
  }

  /** Whether a pilot is connected. */
  isConnected(id: number): boolean {
    return this.get(id)?.link !== undefined;
  }

  /** Whether a pilot is not leaving and thus takes jobs, now or when it is back. */
  stays(id: number): boolean {
    return this.get(id)?.leaving === false;
  }

  /** The pilots of a partition that have been idle since `beforeMs` or longer, the longest idle first. */
  idleSince(partition: string, beforeMs: number): number[] {
    return this.#idle(partition)
      .filter(({ idleSinceMs }) => idleSinceMs <= beforeMs)
      .toSorted((a, b) => a.idleSinceMs - b.idleSinceMs)
      .map(({ id }) => id);
  }

  /** Whether some pilot in the partition has no job, even if it has no time left for another. */
  hasIdle(partition: string): boolean {
    return this.#idle(partition).length > 0;
  }

  /** The free pilot for a job; undefined if the job must wait. Errors: COMPILER_MISSING. */
  freeFor(partition: string, wants: () => NodeWants): LivePilot | undefined {
    const free = this.#idle(partition).filter(hasTime);
    if (free.every(({ missing }) => missing.size === 0)) return free[0];
    // Includes pilots that are away or busy, because they may become free.
    const all = this.all().filter((one) => one.partition === partition && !one.leaving);
    return fittest(wants(), { free, all, partition });
  }

  #idle(partition: string): LivePilot[] {
    return this.all().filter((one) => one.partition === partition && one.link && !one.leaving && !one.work);
  }
}
