import { type Device } from '@flashcore/shared/contract';
import { findDataSheet } from '@flashcore/shared/kernels';

/** US dollars per hour by the device's name, from the runner's configuration. */
export type DeviceRates = ReadonlyMap<string, number>;

export interface JobCost {
  costUsd?: number;
  usdPerHour?: number;
  rateSource?: string;
  /** Why the cost is unknown, and what to do. */
  costMissing?: string;
}

/** The cost of holding a device for some seconds, at the configured rate or else the data sheet's default. */
export function costOf(device: Pick<Device, 'name' | 'simulated'>, seconds: number, rates: DeviceRates): JobCost {
  if (device.simulated) return { costMissing: "no charge: the emulator runs on the host's own processor" };
  const configured = [...rates].find(([name]) => plainName(name) === plainName(device.name))?.[1];
  const sheet = findDataSheet(device.name);
  const usdPerHour = configured ?? sheet?.usdPerHour;
  if (usdPerHour === undefined)
    return {
      costMissing: `cost not known; set --usd-per-hour "${device.name}=2.50", or FLASHCORE_USD_PER_HOUR, where the runner starts`,
    };
  const rateSource =
    configured === undefined
      ? `default for the ${sheet!.name}: the rate of the host that flashcore was made for`
      : "the runner's configuration";
  return { costUsd: (usdPerHour * seconds) / 3600, usdPerHour, rateSource };
}

/** US dollars per hour of a device: 0 for the emulator; undefined if no rate is known. */
export const usdPerHour = (device: Pick<Device, 'name' | 'simulated'>, rates: DeviceRates): number | undefined =>
  device.simulated ? 0 : costOf(device, 0, rates).usdPerHour;

/**
 * Parses "NVIDIA L4=0.68". Several rates are separated by ";" or given as separate texts. Errors: RangeError, which
 * says what a rate must be.
 */
export function parseRates(texts: readonly string[]): DeviceRates {
  const entries = texts
    .flatMap((text) => text.split(';'))
    .map((text) => text.trim())
    .filter((text) => text !== '');
  return new Map(
    entries.map((entry) => {
      const [, name = '', rate = ''] = /^(.+?)\s*=\s*(\d+(?:\.\d+)?)$/.exec(entry) ?? [];
      if (name === '' || !(Number(rate) < 10_000))
        throw new RangeError(`must be <device>=<US dollars an hour>, for example "NVIDIA L4=0.68", got "${entry}"`);
      return [name, Number(rate)];
    }),
  );
}

const plainName = (name: string): string =>
  name
    .trim()
    .toLowerCase()
    .replace(/^nvidia /, '');
