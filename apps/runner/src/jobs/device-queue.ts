import { clone } from '@bufbuild/protobuf';
import { DeviceState, DeviceSchema } from '@flashcore/shared/contract';
import type { DeviceDescription } from './job-context.ts';
import type { JobRun } from './job-run.ts';

/** The jobs of one device: those that wait, first come first served, and the one that has it. */
export class DeviceQueue {
  readonly #describe: () => DeviceDescription;
  readonly #mayStart: () => boolean;
  readonly #waiting: JobRun[] = [];
  #holder: JobRun | undefined;

  /** `mayStart`: whether what a job finds out could be stored now. */
  constructor(describe: () => DeviceDescription, mayStart: () => boolean = () => true) {
    this.#describe = describe;
    this.#mayStart = mayStart;
  }

  /** Jobs that wait. */
  get length(): number {
    return this.#waiting.length;
  }

  /** With the one that has the device. */
  get jobs(): number {
    return this.#waiting.length + (this.#holder ? 1 : 0);
  }

  add(run: JobRun): void {
    this.#waiting.push(run);
    queueMicrotask(() => this.#startNext());
  }

  /** Starts the next job, if there is one: what `mayStart` says has changed. */
  resume(): void {
    queueMicrotask(() => this.#startNext());
  }

  remove(run: JobRun): void {
    const index = this.#waiting.indexOf(run);
    if (index >= 0) this.#waiting.splice(index, 1);
  }

  /** Jobs before this one, with the one that has the device; 0 when it does not wait. */
  position(run: JobRun): number {
    const index = this.#waiting.indexOf(run);
    return index < 0 ? 0 : index + (this.#holder ? 1 : 0);
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
    const run = this.#waiting.shift();
    if (!run) return;
    this.#holder = run;
    void run.run(this.#describe()).then(() => {
      this.#holder = undefined;
      this.#startNext();
    });
  }
}
