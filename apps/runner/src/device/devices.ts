import { existsSync, readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { delimiter, join } from 'node:path';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { DeviceState, DeviceSchema, type Device, type RooflineSchema } from '@flashcore/shared/contract';
import { DATA_SHEETS, findDataSheet, type DataSheet } from '@flashcore/shared/kernels';
import type { DeviceFacts } from '../../worker/messages/device.ts';
import type { HostSettings } from '../build/build-tools.ts';
import { EMULATOR_ID } from '../spec/choose-device.ts';
import { listDevicesOf } from '../workers/worker-entry.ts';

const CUDA_LIBRARY = 'libcuda.so.1';
const NVML_LIBRARY = 'libnvidia-ml.so.1';

/** A device and how a worker opens it. */
export interface HostDevice {
  description: Device;
  /** The driver's library; undefined for the emulator, whose library is compiled on first use. */
  library: string | undefined;
  /** Index among the library's devices. */
  ordinal: number;
}

export interface FoundDevices {
  devices: HostDevice[];
  /**
   * A driver that is installed but did not list its devices, and its error; undefined if it did or if there is none.
   */
  silentDriver?: { library: string; problem: string };
}

/** The GPUs of the host, then the emulators. Without an NVIDIA driver, no process is started to look for GPUs. */
export function findDevices({ emulatedDevices }: Pick<HostSettings, 'emulatedDevices'>): FoundDevices {
  const library = findLibrary(CUDA_LIBRARY);
  const { devices, problem } = library ? listDevicesOf(library) : { devices: [], problem: undefined };
  const gpus = devices.map((facts, ordinal) => ({
    description: describeGpu(facts, ordinal),
    library,
    ordinal,
  }));
  const emulators = Array.from({ length: emulatedDevices }, (_, ordinal) => ({
    description: describeEmulator(ordinal),
    library: undefined,
    ordinal,
  }));
  return {
    devices: [...gpus, ...emulators],
    ...(library && problem !== undefined && { silentDriver: { library, problem } }),
  };
}

/** Path of NVML's library; undefined if there is none. */
export function nvmlLibrary(): string | undefined {
  return findLibrary(NVML_LIBRARY);
}

function describeGpu(facts: DeviceFacts, ordinal: number): Device {
  const sheet = findDataSheet(facts.name);
  return create(DeviceSchema, {
    deviceId: `gpu${ordinal}`,
    ...facts,
    memoryBytes: BigInt(facts.memoryBytes),
    l2Bytes: BigInt(facts.l2Bytes),
    persistingL2Bytes: BigInt(facts.persistingL2Bytes),
    ...(sheet && { roofline: rooflineOf(sheet) }),
    state: DeviceState.READY,
    kernelDriverVersion: kernelDriverVersion(),
  });
}

/** Describes the emulator by the data sheet whose limits it has, without compiling anything. */
export function describeEmulator(ordinal: number): Device {
  const sheet = DATA_SHEETS[0]!;
  return create(DeviceSchema, {
    deviceId: ordinal === 0 ? EMULATOR_ID : `${EMULATOR_ID}${ordinal}`,
    name: 'flashcore CPU emulator (L4 limits)',
    simulated: true,
    ...deviceOfSheet(sheet),
    // The emulator's own limit: an L4's memory or half of the host's, whichever is less.
    memoryBytes: BigInt(Math.min(24 * 1024 ** 3, Math.floor(totalmem() / 2))),
    driverVersion: '13.0',
    state: DeviceState.READY,
  });
}

/** The fields of a device that its data sheet has. */
export const deviceOfSheet = (sheet: DataSheet) =>
  ({
    arch: sheet.arch,
    multiprocessors: sheet.multiprocessors,
    l2Bytes: BigInt(sheet.l2Bytes),
    smemOptinBytes: sheet.smemPerCtaOptinBytes,
    smemPerMultiprocessorBytes: sheet.smemPerSmBytes,
    registersPerMultiprocessor: sheet.registersPerSm,
    roofline: rooflineOf(sheet),
  }) satisfies MessageInitShape<typeof DeviceSchema>;

const rooflineOf = (sheet: DataSheet): MessageInitShape<typeof RooflineSchema> => ({
  fp16TensorTflops: sheet.fp16TensorTflops,
  fp32Tflops: sheet.fp32Tflops,
  memoryGbPerSecond: sheet.memoryGbPerSecond,
  source: sheet.source,
});

function kernelDriverVersion(): string {
  const path = '/proc/driver/nvidia/version';
  return existsSync(path)
    ? (/Kernel Module(?:\s+for \S+)?\s+(\d+[\d.]+)/.exec(readFileSync(path, 'utf8'))?.[1] ?? '')
    : '';
}

function findLibrary(name: string): string | undefined {
  const configured = (process.env['LD_LIBRARY_PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  const triplet = process.arch === 'arm64' ? 'aarch64-linux-gnu' : 'x86_64-linux-gnu';
  const usual = [
    `/usr/lib/${triplet}`,
    '/usr/lib64',
    '/usr/lib',
    `/lib/${triplet}`,
    '/usr/lib/wsl/lib',
    '/usr/local/nvidia/lib64',
    '/usr/local/nvidia/lib',
    '/run/opengl-driver/lib',
  ];
  return [...configured, ...usual].map((folder) => join(folder, name)).find((path) => existsSync(path));
}
