import { DeviceState, FlashcoreError, invalidRequest, type Device } from '@flashcore/shared/contract';
import { didYouMean } from '@flashcore/shared/text';
import type { DeviceLoad } from '../jobs/job-context.ts';

/** The available devices, and the number of jobs on each. */
export interface DeviceChoice {
  devices: readonly Device[];
  load: DeviceLoad;
}

const ANY_DEVICE = 'any';

export const EMULATOR_ID = 'emulator';

/** Normalizes a device id: "gpu:1" becomes "gpu1", "emulator:0" becomes "emulator". */
export const plainDeviceId = (text: string): string =>
  text
    .toLowerCase()
    .replace(/^([a-z]+):(\d+)$/, '$1$2')
    .replace(/^emulator0$/, EMULATOR_ID);

/**
 * The named device, by default the host's first; for a model ("h200") the least loaded device of the model, and for
 * "any" the least loaded device of the first device's model. A job's arch, plan and limits depend on its device, so the
 * device is chosen at planning.
 */
export function chooseDevice({ devices, load }: DeviceChoice, asked: string): Device {
  const deviceId = plainDeviceId(asked);
  const [first] = devices;
  if (!first)
    throw new FlashcoreError(
      'DEVICE_UNAVAILABLE',
      { device_id: asked },
      'The runner has no device: start it on a host with an NVIDIA GPU, or without --no-emulator',
    );
  if (deviceId === ANY_DEVICE) {
    const alike = devices.filter(
      ({ arch, simulated, state }) =>
        arch === first.arch && simulated === first.simulated && state !== DeviceState.QUARANTINED,
    );
    return alike.length > 0 ? leastLoaded(alike, load) : first;
  }
  const device = deviceId === '' ? first : devices.find((one) => one.deviceId === deviceId);
  if (device) return device;
  const ofModel = devices.filter(({ name, state }) => isModel(name, deviceId) && state !== DeviceState.QUARANTINED);
  if (ofModel.length > 0) return leastLoaded(ofModel, load);
  const ids = devices.map((one) => one.deviceId);
  throw invalidRequest({
    field: 'options.device_id',
    description: `must be one of this host's devices (${ids.join(', ')}), a model of theirs, or "${ANY_DEVICE}", got "${asked}"${didYouMean(deviceId, ids)}`,
  });
}

/** "h200" and "nvidia h200" match "NVIDIA H200". */
const isModel = (name: string, asked: string): boolean =>
  [name, name.replace(/^NVIDIA /, '')].some((one) => one.toLowerCase() === asked);

const leastLoaded = (devices: readonly Device[], load: DeviceLoad): Device =>
  devices.toSorted((a, b) => load(a.deviceId) - load(b.deviceId))[0]!;
