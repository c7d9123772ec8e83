import { clone, create } from '@bufbuild/protobuf';
import { DeviceSchema, DeviceState, FlashcoreError, type Device, UsageError } from '@flashcore/shared/contract';
import { findDataSheet } from '@flashcore/shared/kernels';
import { EMULATOR_ID } from '../spec/choose-device.ts';
import { describeEmulator, deviceOfSheet } from '../device/devices.ts';
import type { PartitionSettings } from './fleet-file.ts';

/**
 * A partition's device before any pilot has reported one, from the data sheet of its GPUs. Errors: UsageError for a
 * model without a data sheet.
 */
export function expectedDevice({ partition, deviceId, device }: PartitionSettings): Device {
  if (device === EMULATOR_ID) return asPartition(describeEmulator(0), deviceId);
  const sheet = findDataSheet(device);
  if (!sheet)
    throw new UsageError(
      `partition ${partition}: must be a GPU that flashcore has a data sheet of, or "${EMULATOR_ID}", got "${device}"`,
    );
  return create(DeviceSchema, {
    deviceId,
    name: sheet.name,
    ...deviceOfSheet(sheet),
    state: DeviceState.READY,
  });
}

/** The device that a pilot found on its node, with the partition's id. */
function asPartition(found: Device, deviceId: string): Device {
  const device = clone(DeviceSchema, found);
  device.deviceId = deviceId;
  device.state = DeviceState.READY;
  delete device.stateReason;
  return device;
}

/** The devices of a gateway's partitions: at first as expected, then as the last pilot found them on its node. */
export class PartitionDevices {
  readonly #devices: Map<string, Device>;

  constructor(partitions: readonly PartitionSettings[]) {
    this.#devices = new Map(partitions.map((settings) => [settings.partition, expectedDevice(settings)]));
  }

  /** In the order of the fleet file. */
  list(): Device[] {
    return [...this.#devices.values()];
  }

  /** undefined if the fleet file has no such partition. */
  of(partition: string): Device | undefined {
    return this.#devices.get(partition);
  }

  /** The partition of a device id. Errors: DEVICE_UNAVAILABLE. */
  partitionOf(deviceId: string): string {
    const found = [...this.#devices].find(([, device]) => device.deviceId === deviceId);
    if (found) return found[0];
    throw new FlashcoreError(
      'DEVICE_UNAVAILABLE',
      { device_id: deviceId },
      `${deviceId} is not a partition of this gateway: fa-tui fleet lists them`,
    );
  }

  /** Records a pilot's device and returns it as the partition's device. */
  found(partition: string, onNode: Device): Device {
    const device = asPartition(onNode, this.#devices.get(partition)!.deviceId);
    this.#devices.set(partition, device);
    return device;
  }
}
