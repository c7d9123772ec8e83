import type { CudaFault, EmulatorFault } from '../messages/channel.ts';
import type { NativeLibrary } from './declarations.ts';

/** A driver call that did not return CUDA_SUCCESS, with everything the driver reports about it. */
export class CudaError extends Error {
  readonly fault: CudaFault;

  constructor(fault: CudaFault) {
    super(
      `${fault.call}(${fault.arguments}) failed: ${fault.name}${fault.description ? `, ${fault.description}` : ''}`,
    );
    this.name = 'CudaError';
    this.fault = fault;
  }
}

const MAX_FAULT_BYTES = 256 * 1024;

/** Turns a CUresult into an error. No other code does this. */
export function cudaErrorOf(native: NativeLibrary, code: number, call: string, values: readonly unknown[]): CudaError {
  return new CudaError({
    call,
    arguments: values.map(shown).join(', '),
    name: textOf(native, 'cuGetErrorName', code) ?? `CUresult ${code}`,
    description: textOf(native, 'cuGetErrorString', code) ?? '',
    emulator: lastEmulatorFault(native),
  });
}

function textOf(native: NativeLibrary, call: 'cuGetErrorName' | 'cuGetErrorString', code: number): string | undefined {
  const out: [string | null] = [null];
  return native.call(call, code, out as [null]) === 0 ? (out[0] ?? undefined) : undefined;
}

function shown(value: unknown): string {
  if (typeof value === 'bigint') return `0x${value.toString(16)}`;
  if (ArrayBuffer.isView(value)) return `${value.byteLength} bytes`;
  return Array.isArray(value) ? 'out' : String(value);
}

/** The fault of the last launch; undefined if the library is not the emulator. */
function lastEmulatorFault(native: NativeLibrary): EmulatorFault | undefined {
  if (!native.has('flashcore_emulator_last_fault')) return undefined;
  const json = Buffer.alloc(MAX_FAULT_BYTES);
  const length = native.call('flashcore_emulator_last_fault', json, json.length);
  return length > 0
    ? (JSON.parse(json.toString('utf8', 0, Math.min(length, json.length))) as EmulatorFault)
    : undefined;
}
