import { availableParallelism, loadavg } from 'node:os';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { DeviceReadingSchema, type Device, type DeviceReading } from '@flashcore/shared/contract';
import { errorText } from '@flashcore/shared/text';
import { runProgram, type ProgramEnd } from '../sandbox/run.ts';

const LIMIT_MS = 5_000;
/** A reading older than this is refreshed when it is asked for. */
const FRESH_MS = 1_000;

const QUERY = [
  'name',
  'clocks.sm',
  'clocks.mem',
  'temperature.gpu',
  'power.draw',
  'power.limit',
  'memory.used',
  'utilization.gpu',
] as const;
const ARGUMENTS = [`--query-gpu=${QUERY.join(',')}`, '--format=csv,noheader,nounits'];
const MIB = 1024 ** 2;

export interface ReadingsOptions {
  readonly program?: string;
  readonly now?: () => number;
}

/**
 * Clocks, temperature, power and memory of the host's GPUs. Each question gets the last reading at once and starts a
 * new reading in the background, because nvidia-smi takes seconds if the driver is not kept loaded.
 */
export class DeviceReadings {
  readonly #program: string;
  readonly #now: () => number;
  #last: DeviceReading[] | string = 'it is being read';
  #readAt = -Infinity;
  #reading: Promise<void> | undefined;

  constructor({ program = 'nvidia-smi', now = Date.now }: ReadingsOptions = {}) {
    this.#program = program;
    this.#now = now;
  }

  /** The devices with their readings; the emulator's reading is the host's load. */
  beside(devices: readonly Device[]): Device[] {
    const gpus = devices.filter(({ simulated }) => !simulated);
    if (gpus.length > 0) this.#refresh();
    return devices.map((device) => ({
      ...device,
      reading: device.simulated ? this.#hostReading() : this.#readingOf(device, gpus),
    }));
  }

  #hostReading(): DeviceReading {
    return create(DeviceReadingSchema, {
      time: timestampFromMs(this.#now()),
      hostLoad: loadavg()[0]!,
      hostCpus: availableParallelism(),
    });
  }

  /** Settles when the current reading is complete. */
  async settled(): Promise<void> {
    await this.#reading;
  }

  /**
   * Finds a GPU by its index, because the driver and nvidia-smi list GPUs in the same order. If the names differ, so
   * does the order.
   */
  #readingOf(device: Device, gpus: readonly Device[]): DeviceReading {
    if (typeof this.#last === 'string') return missing(this.#last);
    const reading = this.#last[gpus.indexOf(device)];
    const name = reading === undefined ? undefined : this.#names[gpus.indexOf(device)];
    return reading !== undefined && name === device.name
      ? reading
      : missing(`${this.#program} does not list ${device.name} in its place`);
  }

  #names: string[] = [];

  #refresh(): void {
    if (this.#reading !== undefined || this.#now() - this.#readAt < FRESH_MS) return;
    this.#reading = this.#read().finally(() => {
      this.#reading = undefined;
      this.#readAt = this.#now();
    });
  }

  async #read(): Promise<void> {
    let end: ProgramEnd;
    try {
      end = await runProgram(this.#program, ARGUMENTS, { limitMs: LIMIT_MS, signal: new AbortController().signal });
    } catch (error) {
      this.#last = `${this.#program} could not be started: ${errorText(error)}`;
      return;
    }
    if (end.exitCode !== 0) {
      this.#last =
        end.exitCode === 127
          ? `there is no ${this.#program} on this host`
          : `${this.#program} ${end.timedOut ? 'did not answer' : `ended with status ${end.exitCode}`}`;
      return;
    }
    const rows = end.lines.filter((line) => line !== '').map((line) => line.split(',').map((cell) => cell.trim()));
    this.#names = rows.map(([name = '']) => name);
    this.#last = rows.map((row) => this.#parsed(row));
  }

  #parsed([, ...cells]: readonly string[]): DeviceReading {
    // "[N/A]" or "[Not Supported]" stands for a value that the GPU does not report.
    const [smClockMhz, memoryClockMhz, temperatureC, powerW, powerLimitW, usedMib, utilizationPercent] = cells.map(
      (cell) => (/^\d+(\.\d+)?$/.test(cell) ? Number(cell) : undefined),
    );
    return create(DeviceReadingSchema, {
      time: timestampFromMs(this.#now()),
      ...(smClockMhz !== undefined && { smClockMhz }),
      ...(memoryClockMhz !== undefined && { memoryClockMhz }),
      ...(temperatureC !== undefined && { temperatureC }),
      ...(powerW !== undefined && { powerW }),
      ...(powerLimitW !== undefined && { powerLimitW }),
      ...(usedMib !== undefined && { memoryUsedBytes: BigInt(Math.round(usedMib * MIB)) }),
      ...(utilizationPercent !== undefined && { utilizationPercent }),
    });
  }
}

const missing = (reason: string): DeviceReading => create(DeviceReadingSchema, { missing: reason });
