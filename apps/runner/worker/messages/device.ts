import type { Device } from '@flashcore/shared/contract';

/** Command line of a process that loads and launches candidates' code. The path of the driver library is appended. */
export interface Executor {
  program: string;
  args: string[];
  env: Record<string, string>;
  /**
   * Set if there is no box: a "NAME=value" in the process's environment, by which the processes that it leaves behind
   * are found.
   */
  mark?: string;
  /** Whether it loads much before its first case, as a Python with PyTorch does. */
  startsSlowly?: boolean;
  /** Folder of its cgroup, if the host has one. All processes in the cgroup are killed when the request ends. */
  group?: string;
}

export interface OpenRequest {
  type: 'open';
  /** "libcuda.so.1", or the path of libcuda_emu.so. */
  library: string;
  deviceOrdinal: number;
  /** Set if candidates' modules contain host code, as the emulator's do; then only an executor loads the library. */
  executor?: Executor;
  /** Path of the CPU reference; verification and benchmark need it. */
  referenceLibrary: string;
  /** NVML's library, for clocks and temperature; absent if the host has none. */
  nvmlLibrary?: string | undefined;
  /** clock-stamp.cu, compiled for the device. If absent, the clock of samples is not measured. */
  clockStampImage?: string | undefined;
  /** judge.cu, compiled for the device. If absent, nothing can be timed. */
  judgeImage?: string | undefined;
}

/** Launches a kernel that writes `block * grid` known numbers, and checks them. */
export interface CanaryRequest {
  type: 'canary';
  image: string;
}

/** The device's state now. */
export interface ConditionsRequest {
  type: 'conditions';
  ownProcesses: number[];
}

/** A device's facts from the driver. `--list-devices` prints them as JSON, so sizes are numbers. */
export type DeviceFacts = Pick<
  Device,
  | 'name'
  | 'arch'
  | 'simulated'
  | 'multiprocessors'
  | 'smemOptinBytes'
  | 'smemPerMultiprocessorBytes'
  | 'registersPerMultiprocessor'
  | 'clusters'
  | 'driverVersion'
> &
  Record<'memoryBytes' | 'l2Bytes' | 'persistingL2Bytes', number>;
