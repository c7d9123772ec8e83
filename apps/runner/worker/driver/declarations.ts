import koffi from 'koffi';
import { entryOf } from '@flashcore/shared/text';

/**
 * All native declarations: the CUDA driver API functions that the worker uses, and the emulator's extra exports.
 * Handles and device addresses are 64-bit integers, so a wrong value cannot be mistaken for a pointer to JavaScript
 * memory.
 */
const DECLARATIONS = {
  cuInit: 'int cuInit(uint32_t flags)',
  cuDriverGetVersion: 'int cuDriverGetVersion(_Out_ int *version)',
  cuGetErrorName: 'int cuGetErrorName(int error, _Out_ const char **name)',
  cuGetErrorString: 'int cuGetErrorString(int error, _Out_ const char **text)',
  cuDeviceGetCount: 'int cuDeviceGetCount(_Out_ int *count)',
  cuDeviceGet: 'int cuDeviceGet(_Out_ int *device, int ordinal)',
  cuDeviceGetName: 'int cuDeviceGetName(void *name, int length, int device)',
  cuDeviceGetPCIBusId: 'int cuDeviceGetPCIBusId(void *id, int length, int device)',
  cuDeviceTotalMem_v2: 'int cuDeviceTotalMem_v2(_Out_ uint64_t *bytes, int device)',
  cuDeviceGetAttribute: 'int cuDeviceGetAttribute(_Out_ int *value, int attribute, int device)',
  cuDevicePrimaryCtxRetain: 'int cuDevicePrimaryCtxRetain(_Out_ uint64_t *context, int device)',
  cuDevicePrimaryCtxRelease_v2: 'int cuDevicePrimaryCtxRelease_v2(int device)',
  cuCtxSetCurrent: 'int cuCtxSetCurrent(uint64_t context)',
  cuCtxSynchronize: 'int cuCtxSynchronize()',
  cuProfilerStart: 'int cuProfilerStart()',
  cuProfilerStop: 'int cuProfilerStop()',
  cuCtxSetLimit: 'int cuCtxSetLimit(int limit, uint64_t value)',
  cuCtxResetPersistingL2Cache: 'int cuCtxResetPersistingL2Cache()',
  cuModuleLoadData: 'int cuModuleLoadData(_Out_ uint64_t *module, const void *image)',
  cuModuleUnload: 'int cuModuleUnload(uint64_t module)',
  cuModuleGetFunction: 'int cuModuleGetFunction(_Out_ uint64_t *function, uint64_t module, const char *name)',
  cuFuncSetAttribute: 'int cuFuncSetAttribute(uint64_t function, int attribute, int value)',
  cuOccupancyMaxActiveBlocksPerMultiprocessor:
    'int cuOccupancyMaxActiveBlocksPerMultiprocessor(_Out_ int *blocks, uint64_t function, int threads, uint64_t shared)',
  cuMemAlloc_v2: 'int cuMemAlloc_v2(_Out_ uint64_t *address, uint64_t bytes)',
  cuMemFree_v2: 'int cuMemFree_v2(uint64_t address)',
  cuMemcpyHtoDAsync_v2:
    'int cuMemcpyHtoDAsync_v2(uint64_t destination, const void *source, uint64_t bytes, uint64_t stream)',
  cuMemcpyDtoHAsync_v2: 'int cuMemcpyDtoHAsync_v2(void *destination, uint64_t source, uint64_t bytes, uint64_t stream)',
  cuMemsetD8Async: 'int cuMemsetD8Async(uint64_t address, uint8_t value, uint64_t count, uint64_t stream)',
  cuMemsetD16Async: 'int cuMemsetD16Async(uint64_t address, uint16_t value, uint64_t count, uint64_t stream)',
  cuMemsetD32Async: 'int cuMemsetD32Async(uint64_t address, uint32_t value, uint64_t count, uint64_t stream)',
  cuStreamCreate: 'int cuStreamCreate(_Out_ uint64_t *stream, uint32_t flags)',
  cuStreamSynchronize: 'int cuStreamSynchronize(uint64_t stream)',
  cuStreamQuery: 'int cuStreamQuery(uint64_t stream)',
  cuStreamBeginCapture_v2: 'int cuStreamBeginCapture_v2(uint64_t stream, int mode)',
  cuStreamEndCapture: 'int cuStreamEndCapture(uint64_t stream, _Out_ uint64_t *graph)',
  cuGraphInstantiateWithFlags:
    'int cuGraphInstantiateWithFlags(_Out_ uint64_t *executable, uint64_t graph, uint64_t flags)',
  cuGraphLaunch: 'int cuGraphLaunch(uint64_t executable, uint64_t stream)',
  cuGraphExecDestroy: 'int cuGraphExecDestroy(uint64_t executable)',
  cuGraphDestroy: 'int cuGraphDestroy(uint64_t graph)',
  cuLaunchKernel:
    'int cuLaunchKernel(uint64_t function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t shared, uint64_t stream, const void *parameters, const void *extra)',
  cuLaunchKernelEx:
    'int cuLaunchKernelEx(const void *config, uint64_t function, const void *parameters, const void *extra)',
  cuEventCreate: 'int cuEventCreate(_Out_ uint64_t *event, uint32_t flags)',
  cuEventDestroy_v2: 'int cuEventDestroy_v2(uint64_t event)',
  cuEventRecord: 'int cuEventRecord(uint64_t event, uint64_t stream)',
  cuEventSynchronize: 'int cuEventSynchronize(uint64_t event)',
  cuEventElapsedTime: 'int cuEventElapsedTime(_Out_ float *milliseconds, uint64_t start, uint64_t end)',
  cuTensorMapEncodeTiled:
    'int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, uint64_t address, const void *dimensions, const void *strides, const void *box, const void *elementStrides, int interleave, int swizzle, int promotion, int fill)',
  flashcore_emulator_last_fault: 'int flashcore_emulator_last_fault(void *json, uint64_t capacity)',
  flashcore_emulator_time_limit: 'int flashcore_emulator_time_limit(uint64_t milliseconds)',
  flashcore_emulator_stall_limit: 'int flashcore_emulator_stall_limit(uint64_t milliseconds)',
  flashcore_emulator_blocks_begun: 'int flashcore_emulator_blocks_begun(_Out_ uint64_t *count)',
  flashcore_emulator_set_profiling: 'int flashcore_emulator_set_profiling(int on)',
  flashcore_emulator_profile: 'int flashcore_emulator_profile(void *json, uint64_t capacity)',
  flashcore_emulator_trace_blocks: 'int flashcore_emulator_trace_blocks(uint64_t first, uint64_t step, uint64_t count)',
  flashcore_emulator_trace: 'int flashcore_emulator_trace(void *bytes, uint64_t capacity)',
  flashcore_emulator_mark_memory: 'int flashcore_emulator_mark_memory(uint64_t address, uint64_t bytes, int what)',
  flashcore_emulator_statistics: 'int flashcore_emulator_statistics(void *json, uint64_t capacity)',
} as const;

export type NativeName = keyof typeof DECLARATIONS;

/** Values that may be passed to a native function. All others are refused before the call. */
export type NativeArgument = number | bigint | string | NodeJS.ArrayBufferView | [null];

export interface NativeLibrary {
  has(name: NativeName): boolean;
  /** Calls a function. Throws if an argument is wrong or the library does not export the function. */
  call(name: NativeName, ...values: NativeArgument[]): number;
}

type NativeFunction = (...values: (NativeArgument | null)[]) => number;

/** Loads libcuda.so.1, or a library with the same functions, by path. */
export function loadNativeLibrary(path: string): NativeLibrary {
  const library = koffi.load(path);
  const functions = new Map<NativeName, NativeFunction>();
  const bind = (name: NativeName): NativeFunction => {
    let bound = functions.get(name);
    if (!bound) functions.set(name, (bound = library.func(DECLARATIONS[name]) as unknown as NativeFunction));
    return bound;
  };
  return {
    has(name) {
      try {
        bind(name);
        return true;
      } catch (error) {
        if (error instanceof Error && error.message.includes('Cannot find function')) return false;
        throw error;
      }
    },
    call(name, ...values) {
      const wanted = parameterTypes(name);
      if (values.length !== wanted.length)
        throw new TypeError(`${name} wants ${wanted.length} arguments, got ${values.length}`);
      values.forEach((value, index) => checkArgument(name, index, wanted[index]!, value));
      return bind(name)(...values);
    },
  };
}

const typesByName = new Map<NativeName, string[]>();

/** The parameter types of a function in order: "uint32_t", "out", "pointer", "string" … */
export function parameterTypes(name: NativeName): string[] {
  let types = typesByName.get(name);
  if (!types) {
    const list = DECLARATIONS[name].replace(/^.*?\(/, '').replace(/\)$/, '');
    types = list === '' ? [] : list.split(', ').map(typeOf);
    typesByName.set(name, types);
  }
  return types;
}

/** The type that a function's only out parameter points to. */
export function outParameter(name: NativeName): 'int' | 'float' | 'text' | 'uint64' {
  const declared = /_Out_ ([^,)]*)/.exec(DECLARATIONS[name])?.[1] ?? '';
  if (declared.startsWith('const char')) return 'text';
  if (declared.startsWith('float')) return 'float';
  return declared.startsWith('int ') ? 'int' : 'uint64';
}

function typeOf(parameter: string): string {
  if (parameter.startsWith('_Out_')) return 'out';
  if (parameter.startsWith('const char *')) return 'string';
  if (parameter.includes('*')) return 'pointer';
  return parameter.split(' ')[0]!;
}

const RANGES: Record<string, [number, number]> = {
  uint8_t: [0, 0xff],
  uint16_t: [0, 0xffff],
  uint32_t: [0, 0xffff_ffff],
  int: [-0x8000_0000, 0x7fff_ffff],
};

// koffi accepts undefined as NULL and numbers as addresses; neither may reach a driver by mistake.
function checkArgument(name: NativeName, index: number, type: string, value: unknown): void {
  if (isRight(type, value)) return;
  throw new TypeError(`${name}: argument ${index + 1} must be ${type}, got ${typeof value} ${String(value)}`);
}

function isRight(type: string, value: unknown): boolean {
  switch (type) {
    case 'out':
      return Array.isArray(value) && value.length === 1;
    case 'string':
      return typeof value === 'string' && !value.includes('\0');
    case 'pointer':
      return (ArrayBuffer.isView(value) && value.byteLength > 0) || value === 0n;
    case 'uint64_t':
      return typeof value === 'bigint'
        ? value >= 0n && value < 1n << 64n
        : Number.isSafeInteger(value) && (value as number) >= 0;
    default: {
      const [low, high] = entryOf(RANGES, type)!;
      return Number.isInteger(value) && (value as number) >= low && (value as number) <= high;
    }
  }
}

/** Address of memory that JavaScript owns; valid only while `view` is referenced, and only for synchronous calls. */
export function addressOf(view: NodeJS.ArrayBufferView): bigint {
  return koffi.address(view);
}
