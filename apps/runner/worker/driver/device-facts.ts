import type { DeviceFacts } from '../messages/device.ts';
import { cudaErrorOf } from './cuda-error.ts';
import { loadNativeLibrary, type NativeArgument, type NativeLibrary, type NativeName } from './declarations.ts';

// CUdevice_attribute, from cuda.h.
export const DEVICE_ATTRIBUTE = {
  multiprocessors: 16,
  l2Bytes: 38,
  computeMajor: 75,
  computeMinor: 76,
  smemPerMultiprocessor: 81,
  registersPerMultiprocessor: 82,
  smemOptin: 97,
  maxPersistingL2: 108,
  maxAccessPolicyWindow: 109,
  clusterLaunch: 120,
} as const;

/** CUDA_ERROR_NO_DEVICE: the driver works but finds no device. */
const NO_DEVICE = 100;

/** The devices of a driver library. Creates no context on any of them. */
export function listDevices(library: string): DeviceFacts[] {
  const native = loadNativeLibrary(library);
  const initialized = native.call('cuInit', 0);
  if (initialized === NO_DEVICE) return [];
  if (initialized !== 0) throw cudaErrorOf(native, initialized, 'cuInit', [0]);
  const count = number(native, 'cuDeviceGetCount');
  return Array.from({ length: count }, (_, ordinal) => readDeviceFacts(native, ordinal));
}

/** Reads a device's facts from the driver; the library must be initialized. */
export function readDeviceFacts(native: NativeLibrary, ordinal: number): DeviceFacts {
  const device = number(native, 'cuDeviceGet', ordinal);
  const attribute = (id: number): number => number(native, 'cuDeviceGetAttribute', id, device);
  const version = number(native, 'cuDriverGetVersion');
  const name = Buffer.alloc(256);
  checked(native, 'cuDeviceGetName', name, name.length, device);
  return {
    name: cString(name),
    arch: `sm_${attribute(DEVICE_ATTRIBUTE.computeMajor)}${attribute(DEVICE_ATTRIBUTE.computeMinor)}`,
    // Only the emulator has this export, and nothing else distinguishes it from a GPU.
    simulated: native.has('flashcore_emulator_last_fault'),
    multiprocessors: attribute(DEVICE_ATTRIBUTE.multiprocessors),
    memoryBytes: number(native, 'cuDeviceTotalMem_v2', device),
    l2Bytes: attribute(DEVICE_ATTRIBUTE.l2Bytes),
    smemOptinBytes: attribute(DEVICE_ATTRIBUTE.smemOptin),
    smemPerMultiprocessorBytes: attribute(DEVICE_ATTRIBUTE.smemPerMultiprocessor),
    registersPerMultiprocessor: attribute(DEVICE_ATTRIBUTE.registersPerMultiprocessor),
    persistingL2Bytes: attribute(DEVICE_ATTRIBUTE.maxPersistingL2),
    clusters: attribute(DEVICE_ATTRIBUTE.clusterLaunch) !== 0,
    driverVersion: `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`,
  };
}

function checked(native: NativeLibrary, name: NativeName, ...values: NativeArgument[]): void {
  const code = native.call(name, ...values);
  if (code !== 0) throw cudaErrorOf(native, code, name, values);
}

/** Calls a function whose first argument is the out parameter, and returns that parameter. */
function number(native: NativeLibrary, name: NativeName, ...values: NativeArgument[]): number {
  const out: [null] = [null];
  checked(native, name, out, ...values);
  return Number(out[0]);
}

export function cString(buffer: Buffer): string {
  return buffer.toString('utf8', 0, buffer.indexOf(0));
}
