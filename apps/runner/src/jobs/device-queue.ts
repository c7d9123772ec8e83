import { clone } from '@bufbuild/protobuf';
import { DeviceState, DeviceSchema } from '@flashcore/shared/contract';
import type { DeviceDescription } from './job-context.ts';
import type { JobRun } from './job-run.ts';

/**
 * The jobs of one device: those that wait and the one that has it. Clients take turns, a job each; the jobs of one
 * client run in the order in which they came.
 */
export class DeviceQueue {
  readonly #describe: () => DeviceDescription;
  readonly #mayStart: () => boolean;
  /** By client; whose turn is next comes first. No client's list is empty. */
  readonly #waiting = new Map<string, JobRun[]>();
  #holder: JobRun | undefined;

  /** `mayStart`: whether what a job finds out could be stored now. */
  constructor(describe: () => DeviceDescription, mayStart: () => boolean = () => true) {
    this.#describe = describe;
    this.#mayStart = mayStart;
  }

  /** Jobs that wait. */
  get length(): number {
    return [...this.#waiting.values()].reduce((sum, runs) => sum + runs.length, 0);
  }

  /** With the one that has the device. */
  get jobs(): number {
    return this.length + (this.#holder ? 1 : 0);
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

  /** Jobs before this one if no other comes, with the one that has the device; 0 when it does not wait. */
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
    return ofOthers.reduce((sum, count) => sum + count, place + (this.#holder ? 1 : 0));
  }

  /** The device with the state that jobs give it: BUSY; QUARANTINED while a job that was given up still holds it. */
  device(): DeviceDescription {
    const device = this.#describe();
    if (!this.#holder || device.state === DeviceState.QUARANTINED) return device;
    const held = clone(DeviceSchema, device);
    held.state = this.#holder.state === 'ended' ? DeviceState.QUARANTINED : DeviceState.BUSY;
    held.stateReason =
      this.#holder.state === 'ended'
        ? `${this.#holder.name} was stopped and did not let go of the device`
        : this.#holder.name;
    return held;
  }

  #startNext(): void {
    if (this.#holder || !this.#mayStart()) return;
    const run = this.#takeNext();
    if (!run) return;
    this.#holder = run;
    void run.run(this.#describe()).then(() => {
      this.#holder = undefined;
      this.#startNext();
    });
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
