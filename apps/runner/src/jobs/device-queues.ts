import { DeviceState, FlashcoreError, invalidRequest } from '@flashcore/shared/contract';
import { didYouMean } from '@flashcore/shared/text';
import { DeviceQueue } from './device-queue.ts';
import type { ClientLoad, DeviceDescription } from './job-context.ts';
import type { JobRun } from './job-run.ts';

export interface DeviceQueuesOptions {
  /** The host's devices, the default first. */
  devices: () => DeviceDescription[];
  /** How many jobs a device runs at the same time; default: one. */
  capacity?: ((deviceId: string) => number) | undefined;
  /** Whether jobs may start now. */
  mayStart: () => boolean;
  elapsedMs: () => number;
}

/** The queue of each device; a queue is created for the first job that wants the device. */
export class DeviceQueues {
  readonly #options: DeviceQueuesOptions;
  readonly #queues = new Map<string, DeviceQueue>();

  constructor(options: DeviceQueuesOptions) {
    this.#options = options;
  }

  /** Waiting jobs, over all devices. */
  get waiting(): number {
    return [...this.#queues.values()].reduce((sum, queue) => sum + queue.length, 0);
  }

  /** Undefined if no job has wanted the device yet. */
  get(deviceId: string): DeviceQueue | undefined {
    return this.#queues.get(deviceId);
  }

  /** The queue for one more job. Errors: INVALID_REQUEST if there is no such device; DEVICE_UNAVAILABLE. */
  open(deviceId: string): DeviceQueue {
    const device = this.#require(deviceId);
    const queue = this.#queues.get(deviceId) ?? this.#queueFor(device);
    const { state, stateReason } = queue.device();
    if (state !== DeviceState.QUARANTINED) return queue;
    throw new FlashcoreError(
      'DEVICE_UNAVAILABLE',
      { device_id: deviceId },
      `${deviceId} is quarantined, ${stateReason ?? 'for an unknown reason'}: use another device, or restart the runner`,
    );
  }

  /** Jobs ahead of this one; 0 if it does not wait. */
  position(run: JobRun): number {
    return this.#queues.get(run.deviceId)?.position(run) ?? 0;
  }

  /** The devices with the state that jobs give them. */
  devices(): DeviceDescription[] {
    return this.#options.devices().map((device) => this.#queues.get(device.deviceId)?.device() ?? device);
  }

  /** Each client's use of a device, the next client first. */
  clientsOf(deviceId: string): ClientLoad[] {
    return this.#queues.get(deviceId)?.clients() ?? [];
  }

  /** Starts the jobs whose devices now have room. */
  resume(): void {
    for (const queue of this.#queues.values()) queue.resume();
  }

  #queueFor(device: DeviceDescription): DeviceQueue {
    const { devices, capacity, mayStart, elapsedMs } = this.#options;
    const { deviceId } = device;
    const queue = new DeviceQueue({
      describe: () => devices().find((one) => one.deviceId === deviceId) ?? device,
      mayStart,
      capacity: capacity && (() => capacity(deviceId)),
      elapsedMs,
    });
    this.#queues.set(deviceId, queue);
    return queue;
  }

  #require(deviceId: string): DeviceDescription {
    const devices = this.#options.devices();
    const device = devices.find((one) => one.deviceId === deviceId);
    if (device) return device;
    const ids = devices.map((one) => one.deviceId);
    throw invalidRequest({
      field: 'options.device_id',
      description: `must name a device of this host (${ids.join(', ')}), is "${deviceId}"${didYouMean(deviceId, ids)}`,
    });
  }
}
