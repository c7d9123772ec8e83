import { availableParallelism, loadavg } from 'node:os';
import koffi, { type LibraryHandle } from 'koffi';
import { CudaError } from '../driver/cuda-error.ts';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import type { DeviceConditions, Plain } from '@flashcore/shared/contract';

// nvml.h
const CLOCK_SM = 1;
const CLOCK_MEMORY = 2;
const TEMPERATURE_GPU = 0;
const MAX_PROCESSES = 64;
/** nvmlProcessInfo_t of version 3: pid, padding, memory, two instance ids. */
const PROCESS_BYTES = 24;
const INSUFFICIENT_SIZE = 7;

/** The nvmlClocksEventReason* bits that slow a kernel down. Idle and application clocks are not throttling. */
const THROTTLE_REASONS: readonly (readonly [bigint, string])[] = [
  [0x4n, 'sw_power_cap'],
  [0x8n, 'hw_slowdown'],
  [0x10n, 'sync_boost'],
  [0x20n, 'sw_thermal_slowdown'],
  [0x40n, 'hw_thermal_slowdown'],
  [0x80n, 'hw_power_brake_slowdown'],
];

/**
 * Throttling by hardware or heat. The power cap is excluded because a 72 W card runs at its cap all the time; for such
 * a card only a change of the clock matters.
 */
const HARDWARE_SLOWDOWN = 0x8n | 0x20n | 0x40n | 0x80n;

type Native = (...values: unknown[]) => number;

/**
 * The state of a device as NVML reports it: clocks, temperature, power, throttling, other processes. If the host has no
 * NVML, the result says so.
 */
export class Conditions {
  readonly #simulated: boolean;
  readonly #notMeasured: string | undefined;
  readonly #library: LibraryHandle | undefined;
  readonly #functions = new Map<string, Native>();
  #device = 0n;

  /** `path` is NVML's library; undefined if the host has none. */
  constructor(path: string | undefined, driver: CudaDriver) {
    this.#simulated = driver.facts.simulated;
    if (path === undefined) {
      this.#notMeasured = driver.facts.simulated
        ? 'the emulator has no clocks, temperature or power'
        : 'no libnvidia-ml.so.1 on this host';
      return;
    }
    this.#library = koffi.load(path);
    this.#notMeasured = this.#open(driver);
  }

  /** The reason why nothing can be read; undefined if NVML works. */
  #open(driver: CudaDriver): string | undefined {
    const started = this.#bind('int nvmlInit_v2()')();
    if (started !== 0) return `nvmlInit_v2 answered ${started}`;
    try {
      const out: [number | bigint] = [0];
      const found = this.#bind('int nvmlDeviceGetHandleByPciBusId_v2(const char *id, _Out_ uint64_t *device)')(
        driver.pciBusId(),
        out,
      );
      if (found !== 0) return `NVML does not know the device (${found})`;
      this.#device = BigInt(out[0]);
      return undefined;
    } catch (error) {
      if (error instanceof CudaError) return error.message;
      throw error;
    }
  }

  /** Whether hardware or heat slows the device down now; false if unknown. */
  throttled(): boolean {
    if (this.#notMeasured !== undefined) return false;
    const reasons = this.#number(
      'int nvmlDeviceGetCurrentClocksThrottleReasons(uint64_t device, _Out_ uint64_t *value)',
    );
    return reasons !== undefined && (BigInt(reasons) & HARDWARE_SLOWDOWN) !== 0n;
  }

  /** Reads the state; processes in `ownProcesses` are not reported as other processes on the device. */
  read(ownProcesses: readonly number[]): Plain<DeviceConditions> {
    if (this.#notMeasured !== undefined)
      return {
        throttleReasons: [],
        notMeasured: this.#notMeasured,
        ...(this.#simulated && { hostLoad: loadavg()[0]!, hostCpus: availableParallelism() }),
      };
    const smClockMhz = this.#number(
      'int nvmlDeviceGetClockInfo(uint64_t device, int type, _Out_ uint32_t *value)',
      CLOCK_SM,
    );
    const maxSmClockMhz = this.#number(
      'int nvmlDeviceGetMaxClockInfo(uint64_t device, int type, _Out_ uint32_t *value)',
      CLOCK_SM,
    );
    const memoryClockMhz = this.#number(
      'int nvmlDeviceGetClockInfo(uint64_t device, int type, _Out_ uint32_t *value)',
      CLOCK_MEMORY,
    );
    const temperatureC = this.#number(
      'int nvmlDeviceGetTemperature(uint64_t device, int sensor, _Out_ uint32_t *value)',
      TEMPERATURE_GPU,
    );
    const powerMilliwatts = this.#number('int nvmlDeviceGetPowerUsage(uint64_t device, _Out_ uint32_t *value)');
    const limitMilliwatts = this.#number('int nvmlDeviceGetEnforcedPowerLimit(uint64_t device, _Out_ uint32_t *value)');
    const reasons = this.#number(
      'int nvmlDeviceGetCurrentClocksThrottleReasons(uint64_t device, _Out_ uint64_t *value)',
    );
    const persistenceMode = this.#number('int nvmlDeviceGetPersistenceMode(uint64_t device, _Out_ int *value)');
    const otherProcesses = this.#otherProcesses([process.pid, ...ownProcesses]);
    return {
      ...(smClockMhz !== undefined && { smClockMhz }),
      ...(maxSmClockMhz !== undefined && { maxSmClockMhz }),
      ...(memoryClockMhz !== undefined && { memoryClockMhz }),
      ...(temperatureC !== undefined && { temperatureC }),
      ...(powerMilliwatts !== undefined && { powerW: powerMilliwatts / 1000 }),
      ...(limitMilliwatts !== undefined && { powerLimitW: limitMilliwatts / 1000 }),
      ...(persistenceMode !== undefined && { persistenceMode: persistenceMode === 1 }),
      throttleReasons: THROTTLE_REASONS.filter(([bit]) => reasons !== undefined && (BigInt(reasons) & bit) !== 0n).map(
        ([, name]) => name,
      ),
      ...(otherProcesses !== undefined && { otherProcesses }),
    };
  }

  /** Undefined if this device does not report the value. */
  #number(declaration: string, ...values: number[]): number | undefined {
    const out: [number | bigint] = [0];
    return this.#bind(declaration)(this.#device, ...values, out) === 0 ? Number(out[0]) : undefined;
  }

  #otherProcesses(own: readonly number[]): number | undefined {
    const count: [number] = [MAX_PROCESSES];
    const list = Buffer.alloc(MAX_PROCESSES * PROCESS_BYTES);
    const status = this.#bind(
      'int nvmlDeviceGetComputeRunningProcesses_v3(uint64_t device, _Inout_ uint32_t *count, void *list)',
    )(this.#device, count, list);
    if (status !== 0 && status !== INSUFFICIENT_SIZE) return undefined;
    const ids = Array.from({ length: Math.min(count[0], MAX_PROCESSES) }, (_, index) =>
      list.readUInt32LE(index * PROCESS_BYTES),
    );
    return ids.filter((id) => !own.includes(id)).length;
  }

  #bind(declaration: string): Native {
    let bound = this.#functions.get(declaration);
    if (!bound) {
      if (!this.#library) throw new Error('NVML was not loaded');
      this.#functions.set(declaration, (bound = this.#library.func(declaration) as unknown as Native));
    }
    return bound;
  }
}
