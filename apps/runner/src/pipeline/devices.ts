import { existsSync, readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { delimiter, join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { DATA_SHEETS, DeviceSchema, DeviceState, archLimits, findDataSheet, type DataSheet, type Device } from '@flashcore/shared';
import type { DeviceFacts } from '../../worker/messages.ts';
import { listDevicesOf } from '../workers/worker-entry.ts';

export const EMULATOR_ID = 'emulator';
const CUDA_LIBRARY = 'libcuda.so.1';
const NVML_LIBRARY = 'libnvidia-ml.so.1';

/** A device and how a worker opens it. */
export interface HostDevice {
  description: Device;
  /** Driver library; empty for the emulator, which is compiled on first use. */
  library: string;
  /** Place among the library's devices. */
  ordinal: number;
}

/** The GPUs of the host, then the emulator. Where there is no NVIDIA driver no process is started for it. */
export function findDevices(): HostDevice[] {
  const library = findLibrary(CUDA_LIBRARY);
  const gpus = library ? listDevicesOf(library).map((facts, ordinal) => ({ description: describeGpu(facts, ordinal), library, ordinal })) : [];
  return [...gpus, { description: describeEmulator(), library: '', ordinal: 0 }];
}

/** Path of NVML's library; empty where there is none. */
export function nvmlLibrary(): string {
  return findLibrary(NVML_LIBRARY) ?? '';
}

function describeGpu(facts: DeviceFacts, ordinal: number): Device {
  const sheet = findDataSheet(facts.name);
  return create(DeviceSchema, {
    deviceId: `gpu${ordinal}`,
    ...facts,
    memoryBytes: BigInt(facts.memoryBytes),
    l2Bytes: BigInt(facts.l2Bytes),
    ...(sheet && { roofline: rooflineOf(sheet) }),
    state: DeviceState.READY,
    kernelDriverVersion: kernelDriverVersion(),
  });
}

/** The emulator by the data sheet whose limits it has; nothing is compiled to say so. */
function describeEmulator(): Device {
  const sheet = DATA_SHEETS[0]!;
  const limits = archLimits(sheet.arch)!;
  return create(DeviceSchema, {
    deviceId: EMULATOR_ID,
    name: 'flashcore CPU emulator (L4 limits)',
    simulated: true,
    arch: sheet.arch,
    multiprocessors: sheet.multiprocessors,
    // As the emulator does: no more than an L4's, nor than half of the host's.
    memoryBytes: BigInt(Math.min(24 * 1024 ** 3, Math.floor(totalmem() / 2))),
    l2Bytes: BigInt(sheet.l2Bytes),
    smemOptinBytes: limits.smemPerCtaOptinBytes,
    smemPerMultiprocessorBytes: limits.smemPerSmBytes,
    registersPerMultiprocessor: limits.registersPerSm,
    driverVersion: '13.0',
    roofline: rooflineOf(sheet),
    state: DeviceState.READY,
  });
}

const rooflineOf = (sheet: DataSheet): { fp16TensorTflops: number; memoryGbPerSecond: number; source: string } =>
  ({ fp16TensorTflops: sheet.fp16TensorTflops, memoryGbPerSecond: sheet.memoryGbPerSecond, source: sheet.source });

function kernelDriverVersion(): string {
  const path = '/proc/driver/nvidia/version';
  return existsSync(path) ? (/Kernel Module(?:\s+for \S+)?\s+(\d+[\d.]+)/.exec(readFileSync(path, 'utf8'))?.[1] ?? '') : '';
}

function findLibrary(name: string): string | undefined {
  const configured = (process.env['LD_LIBRARY_PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  const triplet = process.arch === 'arm64' ? 'aarch64-linux-gnu' : 'x86_64-linux-gnu';
  const usual = [`/usr/lib/${triplet}`, '/usr/lib64', '/usr/lib', `/lib/${triplet}`, '/usr/lib/wsl/lib', '/usr/local/nvidia/lib64', '/usr/local/nvidia/lib', '/run/opengl-driver/lib'];
  return [...configured, ...usual].map((folder) => join(folder, name)).find((path) => existsSync(path));
}
