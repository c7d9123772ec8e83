import { clone } from '@bufbuild/protobuf';
import { DeviceState, DeviceSchema } from '@flashcore/shared/contract';
import type { DeviceDescription } from './job-context.ts';
import type { JobRun } from './job-run.ts';

/** What a queue asks about its device. */
export interface QueuedDevice {
  describe: () => DeviceDescription;
  /** Whether what a job finds out could be stored now; default: always. */
  mayStart?: () => boolean;
  /** Jobs that it runs side by side; default: one. A gateway's device is a partition of a cluster. */
  capacity?: (() => number) | undefined;
}

/**
 * The jobs of one device: those that wait and those that have it. Clients take turns, a job each; the jobs of one
 * client start in the order in which they came.
 */
export class DeviceQueue {
  readonly #describe: () => DeviceDescription;
  readonly #mayStart: () => boolean;
  readonly #capacity: () => number;
  /** By client; whose turn is next comes first. No client's list is empty. */
  readonly #waiting = new Map<string, JobRun[]>();
  readonly #holders = new Set<JobRun>();

  constructor({ describe, mayStart = () => true, capacity = () => 1 }: QueuedDevice) {
    this.#describe = describe;
    this.#mayStart = mayStart;
    this.#capacity = capacity;
  }

  /** Jobs that wait. */
  get length(): number {
    return [...this.#waiting.values()].reduce((sum, runs) => sum + runs.length, 0);
  }

  /** With those that have the device. */
  get jobs(): number {
    return this.length + this.#holders.size;
  }

  add(run: JobRun): void {
    const runs = this.#waiting.get(run.owner);
    if (runs) runs.push(run);
    else this.#waiting.set(run.owner, [run]);
    queueMicrotask(() => this.#startNext());
  }

  /** Starts the next job, if there is one: what `mayStart` says has changed. */
  resume(): void {
    queueMicrotask(() => this.#startNext());
  }

  remove(run: JobRun): void {
    const runs = this.#waiting.get(run.owner) ?? [];
    const index = runs.indexOf(run);
    if (index >= 0) runs.splice(index, 1);
    if (runs.length === 0) this.#waiting.delete(run.owner);
  }

  /** Jobs before this one if no other comes, with those that have the device; 0 when it does not wait. */
  position(run: JobRun): number {
    const index = this.#waiting.get(run.owner)?.indexOf(run) ?? -1;
    return index < 0 ? 0 : this.#before(run.owner, index);
  }

  /** Jobs that would come before the next one of a client. */
  positionOfNext(owner: string): number {
    return this.#before(owner, this.#waiting.get(owner)?.length ?? 0);
  }

  /** Jobs before the one at a place in its client's list: others have had as many turns, or one more. */
  #before(owner: string, place: number): number {
    const clients = [...this.#waiting.keys()];
    const turn = clients.includes(owner) ? clients.indexOf(owner) : clients.length;
    const ofOthers = clients
      .filter((client) => client !== owner)
      .map((client) => Math.min(this.#waiting.get(client)!.length, place + (clients.indexOf(client) < turn ? 1 : 0)));
    return ofOthers.reduce((sum, count) => sum + count, place + this.#holders.size);
  }

  /** The device with the state that jobs give it: BUSY; QUARANTINED while a job that was given up still holds it. */
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
    while (this.#holders.size < this.#capacity() && this.#mayStart()) {
      const run = this.#takeNext();
      if (!run) return;
      this.#holders.add(run);
      void run.run(this.#describe()).then(() => {
        this.#holders.delete(run);
        this.#startNext();
      });
    }
  }

  /** The first job of the client whose turn it is, who then comes after all others. */
  #takeNext(): JobRun | undefined {
    const [next] = this.#waiting;
    if (!next) return undefined;
    const [owner, [run, ...others]] = next;
    this.#waiting.delete(owner);
    if (others.length > 0) this.#waiting.set(owner, others);
    return run;
  }
}
