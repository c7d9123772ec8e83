import { clone } from '@bufbuild/protobuf';
import { DeviceState, DeviceSchema } from '@flashcore/shared/contract';
import type { ClientLoad, DeviceDescription } from './job-context.ts';
import { costOf, FairShare, processMs } from './fair-share.ts';
import type { JobRun } from './job-run.ts';
import { RunningCost } from './running-cost.ts';

/** Callbacks through which a queue asks about its device. */
export interface QueuedDevice {
  describe: () => DeviceDescription;
  /** Whether the store takes writes, so that a job's findings can be stored; default: always. */
  mayStart?: () => boolean;
  /** How many jobs run at the same time; default: one. A gateway's device is a partition, which can run several. */
  capacity?: (() => number) | undefined;
  elapsedMs?: (() => number) | undefined;
}

/** A job's owner and weight: the owner is charged the job's cost divided by the weight. */
type Client = Pick<JobRun, 'owner' | 'weight'>;

/** A client with waiting jobs. */
interface Waiting {
  runs: WaitingList<JobRun>;
  /** The client is charged a job's cost divided by this weight. */
  weight: number;
}

/**
 * The jobs of one device: those that wait and those that have the device. The next job belongs to the client with the
 * least recent use of the device, relative to its weight; between equal clients, the client that has waited longest for
 * its turn goes first. The jobs of one client start in the order in which they came.
 */
export class DeviceQueue {
  readonly #describe: () => DeviceDescription;
  readonly #mayStart: () => boolean;
  readonly #capacity: () => number;
  readonly #elapsedMs: () => number;
  readonly #share: FairShare;
  /** Keyed by client; a client that had a turn moves to the end. No client's list is empty. */
  readonly #waiting = new Map<string, Waiting>();
  readonly #holders = new Set<JobRun>();
  readonly #running: RunningCost;
  #length = 0;
  #compilesAhead = false;

  constructor({ describe, mayStart = () => true, capacity = () => 1, elapsedMs = processMs }: QueuedDevice) {
    this.#describe = describe;
    this.#mayStart = mayStart;
    this.#capacity = capacity;
    this.#elapsedMs = elapsedMs;
    this.#share = new FairShare(elapsedMs);
    this.#running = new RunningCost(elapsedMs);
  }

  /** Number of waiting jobs. */
  get length(): number {
    return this.#length;
  }

  /** Number of jobs that wait or have the device. */
  get jobs(): number {
    return this.#length + this.#holders.size;
  }

  add(run: JobRun): void {
    const waiting = this.#waiting.get(run.owner) ?? { runs: new WaitingList(), weight: run.weight };
    waiting.weight = run.weight;
    waiting.runs.push(run);
    this.#waiting.set(run.owner, waiting);
    this.#length += 1;
    this.resume();
  }

  /** Resumes a job that had the device when an earlier runner ended, whether or not there is room for it. */
  adopt(run: JobRun): void {
    queueMicrotask(() => this.#hold(run));
  }

  /** Starts the next jobs, if any, after the answer of `mayStart` or `capacity` has changed. */
  resume(): void {
    queueMicrotask(() => this.#startNext());
  }

  remove(run: JobRun): void {
    const waiting = this.#waiting.get(run.owner);
    if (!waiting?.runs.remove(run)) return;
    this.#length -= 1;
    if (waiting.runs.length === 0) this.#waiting.delete(run.owner);
  }

  /**
   * Jobs ahead of this one if no other job arrives, including those that have the device; 0 if the job does not wait.
   */
  position(run: JobRun): number {
    const index = this.#waiting.get(run.owner)?.runs.indexOf(run) ?? -1;
    return index < 0 ? 0 : this.#before(run, index);
  }

  /** Jobs that would come before a client's next job. */
  positionOfNext(client: Client): number {
    return this.#before(client, this.#waiting.get(client.owner)?.runs.length ?? 0);
  }

  /** Clients with waiting or running jobs, the next one first. */
  clients(): ClientLoad[] {
    const using = this.#using();
    const held = Map.groupBy(this.#holders, ({ owner }) => owner);
    const running = (owner: string): number => (held.get(owner) ?? []).filter((run) => run.hasDevice).length;
    const owners = new Set([...this.#waiting.keys(), ...held.keys()]);
    return [...owners]
      .map((owner) => ({
        client: owner,
        // A job that is still being built, or whose pilot is still on its way, has no device yet and is shown as
        // waiting.
        waiting: (this.#waiting.get(owner)?.runs.length ?? 0) + (held.get(owner)?.length ?? 0) - running(owner),
        running: running(owner),
        used: using(owner),
        weight: this.#waiting.get(owner)?.weight ?? held.get(owner)![0]!.weight,
      }))
      .toSorted((a, b) => a.used / a.weight - b.used / b.weight);
  }

  /**
   * Number of jobs ahead of the one at `place` in its client's list: the jobs of clients that will have used less by
   * then, if every job costs the usual amount.
   */
  #before({ owner, weight }: Client, place: number): number {
    const using = this.#using();
    const { usual } = this.#share;
    const then = (using(owner) + place * usual) / weight;
    const clients = [...this.#waiting.keys()];
    const turn = clients.includes(owner) ? clients.indexOf(owner) : clients.length;
    return clients.reduce((sum, client, index) => {
      if (client === owner) return sum;
      const { runs, weight: its } = this.#waiting.get(client)!;
      const turns = (then * its - using(client)) / usual;
      const before = index < turn ? Math.floor(turns) + 1 : Math.ceil(turns);
      return sum + Math.min(runs.length, Math.max(0, before));
    }, place + this.#holders.size);
  }

  /** A client's recent use, including that of its running jobs. */
  #using(): (client: string) => number {
    return (client) => this.#share.used(client) + this.#running.of(client);
  }

  /** The device with the state that jobs give it: BUSY, or QUARANTINED while an abandoned job still holds it. */
  device(): DeviceDescription {
    const device = this.#describe();
    const [holder] = this.#holders;
    if (!holder || device.state === DeviceState.QUARANTINED || this.#capacity() > this.#holders.size) return device;
    const held = clone(DeviceSchema, device);
    held.state = holder.state === 'ended' ? DeviceState.QUARANTINED : DeviceState.BUSY;
    held.stateReason =
      holder.state === 'ended' ? `${holder.name} was stopped and did not let go of the device` : holder.name;
    return held;
  }

  #startNext(): void {
    while (this.#length > 0 && this.#holders.size < this.#capacity() && this.#mayStart()) {
      const run = this.#takeNext();
      this.#hold(run);
    }
    void this.#compileNext();
  }

  /** Compiles the job that comes next while others have the device; one job at a time. */
  async #compileNext(): Promise<void> {
    const run = this.#holders.size > 0 && !this.#compilesAhead ? this.#next()?.waiting.runs.next : undefined;
    if (!run?.canCompileAhead) return;
    this.#compilesAhead = true;
    await run.compileAhead();
    this.#compilesAhead = false;
    void this.#compileNext();
  }

  #hold(run: JobRun): void {
    this.#holders.add(run);
    this.#running.add(run);
    void run.run(this.#describe()).then(() => {
      this.#holders.delete(run);
      this.#running.delete(run);
      this.#share.charge(run.owner, costOf(run.deviceMs(this.#elapsedMs())));
      this.#startNext();
    });
  }

  /** The client whose turn it is; undefined if no job waits. */
  #next(): { owner: string; waiting: Waiting } | undefined {
    const using = this.#using();
    let next: { owner: string; waiting: Waiting; used: number } | undefined;
    for (const [owner, waiting] of this.#waiting) {
      const used = using(owner) / waiting.weight;
      if (!next || used < next.used) next = { owner, waiting, used };
    }
    return next;
  }

  /** The first job of the client whose turn it is. Clients with equal use then go before this client. */
  #takeNext(): JobRun {
    const { owner, waiting } = this.#next()!;
    const run = waiting.runs.shift()!;
    this.#length -= 1;
    this.#waiting.delete(owner);
    if (waiting.runs.length > 0) this.#waiting.set(owner, waiting);
    return run;
  }
}

/** Waiting jobs of one client, in order of arrival; looked up by binary search. */
class WaitingList<Run extends { jobId: number }> {
  /** By ascending id. Entries before #first are gone. */
  #runs: Run[] = [];
  #first = 0;

  get length(): number {
    return this.#runs.length - this.#first;
  }

  /** The job that shift() would return. */
  get next(): Run | undefined {
    return this.#runs[this.#first];
  }

  push(run: Run): void {
    this.#runs.push(run);
  }

  /** Removes and returns the first job. */
  shift(): Run | undefined {
    const run = this.#runs[this.#first];
    if (!run) return undefined;
    this.#first += 1;
    // Compacts only now and then, so the amortized cost is constant.
    if (this.#first > this.#runs.length / 2) {
      this.#runs = this.#runs.slice(this.#first);
      this.#first = 0;
    }
    return run;
  }

  /** How many jobs come before a run; -1 if it is not in the list. */
  indexOf({ jobId }: Run): number {
    let [low, high] = [this.#first, this.#runs.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#runs[middle]!.jobId < jobId) low = middle + 1;
      else high = middle;
    }
    return this.#runs[low]?.jobId === jobId ? low - this.#first : -1;
  }

  /** Removes a run; returns whether it was in the list. */
  remove(run: Run): boolean {
    const index = this.indexOf(run);
    if (index >= 0) this.#runs.splice(this.#first + index, 1);
    return index >= 0;
  }
}
