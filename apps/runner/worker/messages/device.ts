import type { Device } from '@flashcore/shared/contract';

/** How a process is started that loads and launches what candidates bring; the driver library's path comes last. */
export interface Executor {
  program: string;
  args: string[];
  env: Record<string, string>;
  /** Without a box: "NAME=value" in its environment, by which what it leaves behind is found. */
  mark?: string;
  /** Folder of the cgroup that it is in, where the host has one: all that is in it ends with the request. */
  group?: string;
}

export interface OpenRequest {
  type: 'open';
  /** "libcuda.so.1", or the path of libcuda_emu.so. */
  library: string;
  deviceOrdinal: number;
  /** Where candidates' modules have host code (the emulator's): the library is loaded in such a process alone. */
  executor?: Executor;
  /** Path of the CPU reference; verification and benchmark need it. */
  referenceLibrary: string;
  /** NVML's library, to read clocks and temperature; absent where there is none. */
  nvmlLibrary?: string | undefined;
  /** clock-stamp.cu, compiled for the device; absent: the clock of samples is not measured. */
  clockStampImage?: string | undefined;
  /** judge.cu, compiled for the device; absent: nothing can be timed. */
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

/** What the driver says of a device. Also said as JSON, by `--list-devices`: sizes are numbers. */
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
