import {
  DTYPE_BYTES,
  SWIZZLES,
  TENSOR_MAP_BYTES,
  type LaunchPlan,
  type PlainArgument,
  type PlannedArgument,
  type PlannedLaunch,
  type TensorName,
  argumentBytes,
  bytesOfTensor,
  elementsOfTensor,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { CudaDriver, DevicePointer, Handle, LaunchSpec } from './cuda-driver.ts';
import { addressOf } from './declarations.ts';
import { stridesOf, tensorNamed } from './tensor-bits.ts';

/** Device addresses of a run's buffers. */
export interface BufferAddresses {
  tensors: Record<TensorName, DevicePointer>;
  workspace: ReadonlyMap<string, DevicePointer>;
}

const SLOT_BYTES = 8;

/**
 * Launches with their arguments packed, so that a timed launch only calls the driver. `storage` holds the bytes that
 * the parameter arrays point to; it must live as long as `specs` are launched.
 */
export interface PreparedLaunches {
  specs: LaunchSpec[];
  storage: Buffer[];
}

interface LaunchParts {
  plan: LaunchPlan;
  functions: ReadonlyMap<PlannedLaunch, Handle>;
  addresses: BufferAddresses;
}

export function prepareLaunches(driver: CudaDriver, options: LaunchParts): PreparedLaunches {
  const storage: Buffer[] = [];
  const specs = options.plan.launches.map((launch) => {
    const handle = options.functions.get(launch);
    if (handle === undefined) throw new Error(`no function was loaded for ${launch.entry}`);
    const values = launch.arguments.map((argument) => packed(driver, argument, options));
    storage.push(...values);
    const parameters = parameterArray(values);
    const spec: LaunchSpec = {
      function: handle,
      grid: launch.grid,
      block: launch.block,
      sharedBytes: launch.sharedBytes,
      stream: driver.stream,
      parameters,
    };
    const config = launchConfig(driver, launch, options, storage);
    return config ? { ...spec, config } : spec;
  });
  return { specs, storage };
}

/** The bytes of an argument. Bytes of a struct that no field covers are zero. */
function packed(driver: CudaDriver, argument: PlannedArgument, parts: LaunchParts): Buffer {
  if (argument.kind !== 'struct') return packedPlain(driver, argument, parts);
  const bytes = Buffer.alloc(argument.bytes);
  for (const { at, value } of argument.fields) {
    packedPlain(driver, value, parts).copy(bytes, at, 0, argumentBytes(value));
  }
  return bytes;
}

// Buffers outside Node's pool keep their address as long as they are referenced.
function packedPlain(driver: CudaDriver, argument: PlainArgument, { addresses, plan }: LaunchParts): Buffer {
  const bytes = Buffer.alloc(SLOT_BYTES);
  switch (argument.kind) {
    case 'tensor':
      // A tensor that the case lacks is passed as a null pointer.
      if (plan.tensors.some(({ name }) => name === argument.tensor))
        bytes.writeBigUInt64LE(tensorAddress(addresses, argument.tensor));
      return bytes;
    case 'workspace': {
      const address = addresses.workspace.get(argument.name);
      if (address === undefined) throw new Error(`the plan has no workspace ${argument.name}`);
      bytes.writeBigUInt64LE(address);
      return bytes;
    }
    case 'null':
      return bytes;
    // Sign-extended to the whole slot, so a parameter wider than an int reads the same value.
    case 'bool':
    case 'int8':
    case 'int16':
    case 'int32':
    case 'int64':
      bytes.writeBigInt64LE(BigInt(argument.value));
      return bytes;
    case 'float32':
      bytes.writeFloatLE(argument.value);
      return bytes;
    case 'float64':
      bytes.writeDoubleLE(argument.value);
      return bytes;
    case 'tensorMap':
      return tensorMap(driver, argument, tensorAddress(addresses, argument.tensor), plan);
  }
}

function tensorAddress({ tensors }: BufferAddresses, name: TensorName): DevicePointer {
  const address = entryOf(tensors, name);
  if (address === undefined) throw new Error(`the plan has no tensor ${name}`);
  return address;
}

/**
 * Encodes a CUtensorMap that sees a tensor as [heads, rows, columns]: the last two dimensions, and the product of the
 * others; a matrix with a box of two extents as [rows, columns]. A tensor with a layout of its own keeps all of the
 * problem's dimensions, because the outer ones have no stride in common. The box is given innermost first: [columns,
 * rows] of one head, or [columns, rows, heads]. Rows past the last are read as zeros, because they are outside the map
 * and not part of the next head.
 */
function tensorMap(
  driver: CudaDriver,
  argument: Extract<PlainArgument, { kind: 'tensorMap' }>,
  address: DevicePointer,
  plan: LaunchPlan,
): Buffer {
  const map = alignedBuffer(TENSOR_MAP_BYTES, 64);
  const tensor = tensorNamed(plan, argument.tensor);
  const { dtype, dims } = tensor;
  const [columnsOfAll, rowsOfAll = 1, ...outer] = dims.toReversed();
  if (argument.box.length < 2 || argument.box.length > 3)
    throw new Error(
      `a tensor map's box has [columns, rows] or [columns, rows, heads], got ${argument.box.length} numbers`,
    );
  const swizzle = SWIZZLES[argument.swizzle];
  if (tensor.layout) {
    const strides = stridesOf(tensor).map((stride) => stride * DTYPE_BYTES[dtype]);
    driver.encodeTensorMap(map, {
      dtype,
      address,
      dimensions: dims.toReversed(),
      strides: strides.toReversed().slice(1),
      box: dims.map((_, dim) => argument.box[dim] ?? 1),
      swizzle,
    });
    return map;
  }
  // A matrix needs no third dimension, unless its box has one.
  const rank = dims.length === 2 && argument.box.length === 2 ? 2 : 3;
  const dimensions = [columnsOfAll!, rowsOfAll, elementsOfTensor({ dims: outer })];
  const strides = [columnsOfAll! * DTYPE_BYTES[dtype], rowsOfAll * columnsOfAll! * DTYPE_BYTES[dtype]];
  const [columns, rows, heads = 1] = argument.box;
  driver.encodeTensorMap(map, {
    dtype,
    address,
    dimensions: dimensions.slice(0, rank),
    strides: strides.slice(0, rank - 1),
    box: [columns!, rows!, heads].slice(0, rank),
    swizzle,
  });
  return map;
}

function alignedBuffer(bytes: number, alignment: number): Buffer {
  const block = Buffer.alloc(bytes + alignment);
  const offset = Number(-addressOf(block) & BigInt(alignment - 1));
  return block.subarray(offset, offset + bytes);
}

const CONFIG_BYTES = 56;
const CONFIG_ATTRIBUTES = 40;
const ATTRIBUTE_BYTES = 72;
const ATTRIBUTE_ACCESS_POLICY_WINDOW = 1;
const ATTRIBUTE_COOPERATIVE = 2;
const ATTRIBUTE_CLUSTER_DIMENSION = 4;
const ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6;
const ACCESS_STREAMING = 1;
const ACCESS_PERSISTING = 2;

/** Builds CUlaunchConfig followed by its attributes (cuda.h), for launches that plain cuLaunchKernel cannot express. */
function launchConfig(
  driver: CudaDriver,
  launch: PlannedLaunch,
  { plan, addresses }: Pick<LaunchParts, 'plan' | 'addresses'>,
  storage: Buffer[],
): Buffer | undefined {
  const attributes: Buffer[] = [];
  if (launch.cooperative) attributes.push(flagAttribute(ATTRIBUTE_COOPERATIVE));
  // Devices before Hopper, which have no clusters either, start the launch when the one before it has ended.
  if (launch.programmatic && driver.facts.clusters)
    attributes.push(flagAttribute(ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));
  // A device without clusters runs the same CTAs separately; the daemon reports it.
  if (launch.cluster && driver.facts.clusters) attributes.push(clusterAttribute(launch.cluster));
  const window = launch.l2Persist.length > 0 ? persistingWindow(driver, launch.l2Persist, addresses, plan) : undefined;
  if (window) attributes.push(window);
  if (attributes.length === 0) return undefined;
  // Config and attributes share one buffer, so a driver in another process can be sent the bytes unchanged.
  const config = Buffer.alloc(CONFIG_BYTES + ATTRIBUTE_BYTES * attributes.length);
  Buffer.concat(attributes).copy(config, CONFIG_BYTES);
  [...launch.grid, ...launch.block, launch.sharedBytes].forEach((value, index) =>
    config.writeUInt32LE(value, index * 4),
  );
  config.writeBigUInt64LE(driver.stream, 32);
  config.writeBigUInt64LE(addressOf(config) + BigInt(CONFIG_BYTES), CONFIG_ATTRIBUTES);
  config.writeUInt32LE(attributes.length, 48);
  storage.push(config);
  return config;
}

function flagAttribute(id: number): Buffer {
  const attribute = Buffer.alloc(ATTRIBUTE_BYTES);
  attribute.writeUInt32LE(id, 0);
  attribute.writeInt32LE(1, 8);
  return attribute;
}

function clusterAttribute(cluster: readonly number[]): Buffer {
  const attribute = Buffer.alloc(ATTRIBUTE_BYTES);
  attribute.writeUInt32LE(ATTRIBUTE_CLUSTER_DIMENSION, 0);
  cluster.forEach((value, axis) => attribute.writeUInt32LE(value, 8 + axis * 4));
  return attribute;
}

/**
 * One window from the first to the last of the tensors. They are allocated one after another, so the window is little
 * larger than the tensors.
 */
function persistingWindow(
  driver: CudaDriver,
  tensors: TensorName[],
  addresses: BufferAddresses,
  plan: LaunchPlan,
): Buffer | undefined {
  const starts = tensors.map((tensor) => tensorAddress(addresses, tensor));
  const ends = tensors.map((tensor, index) => {
    return starts[index]! + BigInt(bytesOfTensor(tensorNamed(plan, tensor)));
  });
  const low = starts.reduce((least, start) => (start < least ? start : least));
  const high = ends.reduce((most, end) => (end > most ? end : most));
  const limit = driver.allowPersistingL2(Number(high - low));
  if (limit === 0) return undefined;
  const attribute = Buffer.alloc(ATTRIBUTE_BYTES);
  attribute.writeUInt32LE(ATTRIBUTE_ACCESS_POLICY_WINDOW, 0);
  attribute.writeBigUInt64LE(low, 8);
  attribute.writeBigUInt64LE(BigInt(Math.min(Number(high - low), limit)), 16);
  attribute.writeFloatLE(1, 24);
  attribute.writeUInt32LE(ACCESS_PERSISTING, 28);
  attribute.writeUInt32LE(ACCESS_STREAMING, 32);
  return attribute;
}

/**
 * The bytes behind the addresses of a parameter array. A driver in another process needs them because it cannot use the
 * addresses.
 */
const packedValues = new WeakMap<object, readonly Buffer[]>();

/**
 * Builds the array of argument addresses that cuLaunchKernel takes. `values` must live as long as they are launched.
 */
export function parameterArray(values: readonly Buffer[]): BigUint64Array {
  const parameters = BigUint64Array.from(values.length > 0 ? values.map(addressOf) : [0n]);
  packedValues.set(parameters, values);
  return parameters;
}

/** The arguments of an array that parameterArray() made. */
export function argumentsOf(parameters: object): readonly Buffer[] {
  const values = packedValues.get(parameters);
  if (!values) throw new TypeError('a parameter array must be made by parameterArray()');
  return values;
}
