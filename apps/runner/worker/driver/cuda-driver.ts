import { readFileSync } from 'node:fs';
import { ELEMENTS, type Fill, type ElementDtype } from '@flashcore/shared/kernels';
import type { DeviceFacts } from '../messages/device.ts';
import { type LaunchCounts, launchCounts } from '../messages/profiling.ts';
import { CudaError, cudaErrorOf } from './cuda-error.ts';
import { DEVICE_ATTRIBUTE, cString, readDeviceFacts } from './device-facts.ts';
import { loadNativeLibrary, type NativeArgument, type NativeLibrary, type NativeName } from './declarations.ts';

/** Device address. */
export type DevicePointer = bigint;
/** Handle of a stream, event, graph … */
export type Handle = bigint;

const FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES = 8;
const FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER = 14;
const STREAM_NON_BLOCKING = 1;
/** cuStreamQuery's answer while work is in the stream. */
const NOT_READY = 600;
const CAPTURE_THREAD_LOCAL = 1;
const LIMIT_PERSISTING_L2 = 6;
/** The counts of one line of the kernel take about 300 bytes. */
const MAX_COUNTS_BYTES = 4 * 1024 ** 2;
/** Kinds of memory in flashcore_emulator_mark_memory. */
const MEMORY_MARKS = { guard: 1, unwritten: 2, workspace: 3 } as const;

export interface LaunchSpec {
  function: Handle;
  grid: readonly [number, number, number];
  block: readonly [number, number, number];
  sharedBytes: number;
  stream: Handle;
  /** Addresses of the arguments, in the form cuLaunchKernel takes. The memory they point to must stay alive. */
  parameters: BigUint64Array;
  /** A prepared CUlaunchConfig, if the launch needs a cluster or an access-policy window. */
  config?: Buffer;
}

const FILLS = { 1: 'cuMemsetD8Async', 2: 'cuMemsetD16Async', 4: 'cuMemsetD32Async' } as const;

interface FunctionOptions {
  sharedBytes: number;
  cluster: boolean;
  /** Grid and block of a cooperative launch. */
  cooperative?: Pick<LaunchSpec, 'grid' | 'block'>;
}

/** Selects `count` blocks of a grid: the first, then one every `step` blocks. */
export interface BlockChoice {
  first: number;
  step: number;
  count: number;
}

interface TensorMapShape {
  dtype: ElementDtype;
  address: DevicePointer;
  dimensions: number[];
  strides: number[];
  box: number[];
  swizzle: number;
}

/**
 * One device of a CUDA driver library: libcuda.so.1 or the emulator. Every call is checked; a CUresult other than
 * success becomes a CudaError. All calls are synchronous. If a call hangs, the parent kills this process.
 */
export class CudaDriver {
  readonly facts: DeviceFacts;
  /** All work goes through this stream. */
  readonly stream: Handle;
  readonly #native: NativeLibrary;
  readonly #device: number;

  /** `library` is a path to load into this process, or a library that is loaded elsewhere. */
  constructor(library: string | NativeLibrary, ordinal: number) {
    this.#native = typeof library === 'string' ? loadNativeLibrary(library) : library;
    this.#call('cuInit', 0);
    this.#device = this.#int('cuDeviceGet', ordinal);
    this.#call('cuCtxSetCurrent', this.#handle('cuDevicePrimaryCtxRetain', this.#device));
    this.stream = this.#handle('cuStreamCreate', STREAM_NON_BLOCKING);
    this.facts = readDeviceFacts(this.#native, ordinal);
  }

  /** PCI address in NVML's form, for example "0000:01:00.0". */
  pciBusId(): string {
    const id = Buffer.alloc(64);
    this.#call('cuDeviceGetPCIBusId', id, id.length, this.#device);
    return cString(id);
  }

  /**
   * Limits later launches on the emulator to this many milliseconds; 0 means no limit. A launch over the limit ends
   * with a fault that names where its threads were, and so does a launch that begins no further block for `stallMs`.
   * Has no effect on a GPU, whose launches cannot be stopped.
   */
  limitLaunches(milliseconds: number, stallMs = 0): void {
    if (!this.#native.has('flashcore_emulator_time_limit')) return;
    this.#native.call('flashcore_emulator_time_limit', BigInt(Math.ceil(milliseconds)));
    this.#native.call('flashcore_emulator_stall_limit', BigInt(Math.ceil(stallMs)));
  }

  /** The number of blocks that all launches so far have begun; undefined on a GPU, which does not say. */
  blocksBegun(): number | undefined {
    return this.#native.has('flashcore_emulator_blocks_begun')
      ? this.#int('flashcore_emulator_blocks_begun')
      : undefined;
  }

  /** False while work is in the stream. An error of that work counts as its end; synchronize() throws it. */
  isIdle(): boolean {
    return this.#native.call('cuStreamQuery', this.stream) !== NOT_READY;
  }

  /** Counts later PTX launches on the emulator, which takes several times as long. */
  countLaunches(): void {
    this.#native.call('flashcore_emulator_set_profiling', 1);
  }

  /** The counts of all launches since countLaunches(), in order. */
  countedLaunches(): LaunchCounts[] {
    const json = Buffer.alloc(MAX_COUNTS_BYTES);
    const length = this.#native.call('flashcore_emulator_profile', json, json.length);
    if (length >= json.length) throw new Error(`the counts of the launches take ${length} bytes`);
    return launchCounts(JSON.parse(json.toString('utf8', 0, length)));
  }

  /** Runs only some blocks of later launches, and counts and traces them. */
  traceLaunches({ first, step, count }: BlockChoice): void {
    this.countLaunches();
    this.#call('flashcore_emulator_trace_blocks', BigInt(first), BigInt(step), BigInt(count));
  }

  /**
   * The trace of the launches since traceLaunches(), or undefined if it is longer than `most` bytes. Ends counting and
   * tracing.
   */
  tracedLaunches(most: number): Buffer | undefined {
    const length = this.#native.call('flashcore_emulator_trace', 0n, 0n);
    const bytes = length <= most ? Buffer.alloc(length) : undefined;
    if (bytes && length > 0) this.#native.call('flashcore_emulator_trace', bytes, BigInt(length));
    this.#native.call('flashcore_emulator_set_profiling', 0);
    return bytes;
  }

  loadModule(path: string): Handle {
    // PTX text must end with a zero byte; cubins and emulator modules ignore it.
    const image = Buffer.concat([readFileSync(path), Buffer.alloc(1)]);
    return this.#handleWith('cuModuleLoadData', [], [image]);
  }

  unloadModule(module: Handle): void {
    this.#call('cuModuleUnload', module);
  }

  /** An entry, ready for launches with `sharedBytes` of dynamic shared memory. */
  function(module: Handle, entry: string, options: FunctionOptions): Handle {
    const handle = this.#handleWith('cuModuleGetFunction', [], [module, entry]);
    // Without this, dynamic and static shared memory together may take 48 KiB at most.
    if (options.sharedBytes > 0)
      this.#call('cuFuncSetAttribute', handle, FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES, options.sharedBytes);
    if (options.cluster) this.#call('cuFuncSetAttribute', handle, FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER, 1);
    if (options.cooperative) this.#requireResident(handle, entry, options);
    return handle;
  }

  /**
   * Throws CudaError with both numbers if the CTAs do not all fit at once. The driver's own error lacks the numbers.
   */
  #requireResident(handle: Handle, entry: string, { cooperative, sharedBytes }: FunctionOptions): void {
    const [ctas, threads] = [cooperative!.grid, cooperative!.block].map(([x, y, z]) => x * y * z) as [number, number];
    const occupancy = this.#int('cuOccupancyMaxActiveBlocksPerMultiprocessor', handle, threads, sharedBytes);
    const { multiprocessors } = this.facts;
    if (ctas <= occupancy * multiprocessors) return;
    throw new CudaError({
      call: 'cuLaunchKernelEx',
      arguments: entry,
      name: 'CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE',
      description: `${entry} must have all of its ${ctas} CTAs resident, and the device has room for ${occupancy * multiprocessors} (${multiprocessors} SMs of ${occupancy})`,
      emulator: undefined,
    });
  }

  allocate(bytes: number): DevicePointer {
    return this.#handleWith('cuMemAlloc_v2', [], [bytes]);
  }

  free(address: DevicePointer): void {
    this.#call('cuMemFree_v2', address);
  }

  /**
   * Copies in stream order; the bytes are staged when it returns. It uses this stream like everything else, because
   * calls in two streams of a process slow down its graphs (docs/measuring.md).
   */
  upload(destination: DevicePointer, source: NodeJS.ArrayBufferView): void {
    this.#call('cuMemcpyHtoDAsync_v2', destination, source, source.byteLength, this.stream);
  }

  /** Waits for the stream. */
  download(destination: NodeJS.ArrayBufferView, source: DevicePointer): void {
    this.#call('cuMemcpyDtoHAsync_v2', destination, source, destination.byteLength, this.stream);
    this.synchronize();
  }

  /** Fills memory, in stream order. */
  fill8(address: DevicePointer, value: number, bytes: number): void {
    if (bytes > 0) this.#call('cuMemsetD8Async', address, value, bytes, this.stream);
  }

  /** Fills `count` 16-bit words, in stream order. */
  fill16(address: DevicePointer, value: number, count: number, stream = this.stream): void {
    if (count > 0) this.#call('cuMemsetD16Async', address, value, count, stream);
  }

  /** Fills `count` elements, in stream order. */
  fill(address: DevicePointer, { bytes, bits }: Fill, count: number, stream = this.stream): void {
    if (count > 0) this.#call(FILLS[bytes], address, bits, count, stream);
  }

  /**
   * Tells the emulator which bytes are not data: guard bytes, which no kernel may touch, bytes that have not been
   * written yet and hold poison, and workspaces, whose bytes count only once a kernel reads them. Has no effect on a
   * GPU.
   */
  markMemory(address: DevicePointer, bytes: number, what: keyof typeof MEMORY_MARKS): void {
    if (this.#native.has('flashcore_emulator_mark_memory'))
      this.#call('flashcore_emulator_mark_memory', address, BigInt(bytes), MEMORY_MARKS[what]);
  }

  launch(spec: LaunchSpec): void {
    if (spec.config) {
      this.#call('cuLaunchKernelEx', spec.config, spec.function, spec.parameters, 0n);
      return;
    }
    this.#call(
      'cuLaunchKernel',
      spec.function,
      ...spec.grid,
      ...spec.block,
      spec.sharedBytes,
      spec.stream,
      spec.parameters,
      0n,
    );
  }

  synchronize(): void {
    this.#call('cuStreamSynchronize', this.stream);
  }

  /** Has a profiler around this process profile the work that `enqueue` enqueues. Waits for the stream. */
  profiled(enqueue: () => void): void {
    this.synchronize();
    this.#call('cuProfilerStart');
    enqueue();
    this.synchronize();
    this.#call('cuProfilerStop');
  }

  createEvent(): Handle {
    return this.#handle('cuEventCreate', 0);
  }

  recordEvent(event: Handle): void {
    this.#call('cuEventRecord', event, this.stream);
  }

  destroyEvent(event: Handle): void {
    this.#call('cuEventDestroy_v2', event);
  }

  /** Waits for `end` and returns the microseconds between the two events. */
  elapsedUs(start: Handle, end: Handle): number {
    this.#call('cuEventSynchronize', end);
    const out: [null] = [null];
    this.#call('cuEventElapsedTime', out, start, end);
    return Number(out[0]) * 1000;
  }

  /** Records the work that `record` enqueues as an executable graph. */
  captureGraph(record: () => void): Handle {
    this.#call('cuStreamBeginCapture_v2', this.stream, CAPTURE_THREAD_LOCAL);
    record();
    const graph = this.#handleWith('cuStreamEndCapture', [this.stream], []);
    const executable = this.#handleWith('cuGraphInstantiateWithFlags', [], [graph, 0]);
    this.#call('cuGraphDestroy', graph);
    return executable;
  }

  launchGraph(executable: Handle): void {
    this.#call('cuGraphLaunch', executable, this.stream);
  }

  destroyGraph(executable: Handle): void {
    this.#call('cuGraphExecDestroy', executable);
  }

  /**
   * Lets launches keep up to `bytes` in L2. Returns the bytes that one access-policy window may cover (0: the device
   * has no such window).
   */
  allowPersistingL2(bytes: number): number {
    const { persistingL2Bytes } = this.facts;
    if (persistingL2Bytes === 0) return 0;
    this.#call('cuCtxSetLimit', LIMIT_PERSISTING_L2, Math.min(bytes, persistingL2Bytes));
    return this.#int('cuDeviceGetAttribute', DEVICE_ATTRIBUTE.maxAccessPolicyWindow, this.#device);
  }

  resetPersistingL2(): void {
    this.#call('cuCtxResetPersistingL2Cache');
  }

  encodeTensorMap(map: Buffer, options: TensorMapShape): void {
    const PROMOTION_256B = 3;
    this.#call(
      'cuTensorMapEncodeTiled',
      map,
      ELEMENTS[options.dtype].tensorMapNumber,
      options.dimensions.length,
      options.address,
      BigUint64Array.from(options.dimensions, BigInt),
      BigUint64Array.from(options.strides, BigInt),
      Uint32Array.from(options.box),
      new Uint32Array(options.box.length).fill(1),
      0,
      options.swizzle,
      PROMOTION_256B,
      0,
    );
  }

  #call(name: NativeName, ...values: NativeArgument[]): void {
    const code = this.#native.call(name, ...values);
    if (code !== 0) throw cudaErrorOf(this.#native, code, name, values);
  }

  #int(name: NativeName, ...values: NativeArgument[]): number {
    const out: [null] = [null];
    this.#call(name, out, ...values);
    return Number(out[0]);
  }

  #handle(name: NativeName, ...values: NativeArgument[]): Handle {
    return this.#handleWith(name, [], values);
  }

  // The out parameter's position varies between functions: it comes after `before` and ahead of `after`.
  #handleWith(name: NativeName, before: NativeArgument[], after: NativeArgument[]): Handle {
    const out: [null] = [null];
    this.#call(name, ...before, out, ...after);
    return BigInt(out[0] as unknown as number | bigint);
  }
}
