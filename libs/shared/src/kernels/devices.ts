/** GPU data sheets, the occupancy and waves they imply, and the roofline. */
import { create } from '@bufbuild/protobuf';
import { DTYPES, type TensorDtype } from '../data/dtype.ts';
import { type LaunchWaves, LaunchWavesSchema } from '../generated/flashcore/runner/v1/result_pb.js';
import { MAX_THREADS_PER_CTA } from './launch-limits.ts';

/**
 * Limits of an architecture (compute capability), from the CUDA C++ Programming Guide's table of technical
 * specifications and cuda_occupancy.h.
 */
export interface ArchLimits {
  readonly arch: string;
  readonly maxThreadsPerSm: number;
  readonly maxCtasPerSm: number;
  readonly registersPerSm: number;
  readonly maxRegistersPerThread: number;
  /** Shared memory of an SM that CTAs can use, in bytes. */
  readonly smemPerSmBytes: number;
  /** Maximum shared memory of a CTA with the opt-in, in bytes. */
  readonly smemPerCtaOptinBytes: number;
  /** Maximum shared memory of a CTA without the opt-in, in bytes. */
  readonly smemPerCtaStaticBytes: number;
  /** Shared memory that the driver reserves per CTA, in bytes. */
  readonly smemReservedPerCtaBytes: number;
}

export interface DataSheet extends ArchLimits {
  readonly name: string;
  readonly multiprocessors: number;
  readonly l2Bytes: number;
  readonly memoryGbPerSecond: number;
  /** Dense TFLOP/s with fp16 inputs and fp32 accumulation. */
  readonly fp16TensorTflops: number;
  /** fp32 TFLOP/s without tensor cores. */
  readonly fp32Tflops: number;
  /** Rate for the cost shown with a job; undefined if no rate is known. */
  readonly usdPerHour: number | undefined;
  /** Source of throughput and bandwidth. */
  readonly source: string;
}

const KIB = 1024;
const MIB = 1024 * KIB;
const WARP_THREADS = 32;
// These units are the same on sm_80 to sm_90 (cuda_occupancy.h). Registers are allocated per warp in units of 256, on
// four sub-partitions. Shared memory is allocated in units of 128 bytes.
const REGISTER_UNIT = 256;
const SUB_PARTITIONS = 4;
const SMEM_UNIT_BYTES = 128;

const limits = (arch: string, maxThreadsPerSm: number, maxCtasPerSm: number, smemPerSmKib: number): ArchLimits => ({
  arch,
  maxThreadsPerSm,
  maxCtasPerSm,
  registersPerSm: 64 * KIB,
  maxRegistersPerThread: 255,
  smemPerSmBytes: smemPerSmKib * KIB,
  smemPerCtaOptinBytes: (smemPerSmKib - 1) * KIB,
  smemPerCtaStaticBytes: 48 * KIB,
  smemReservedPerCtaBytes: KIB,
});

const SM_80 = limits('sm_80', 2048, 32, 164);
const SM_86 = limits('sm_86', 1536, 16, 100);
const SM_89 = limits('sm_89', 1536, 24, 100);
const SM_90 = limits('sm_90', 2048, 32, 228);

/** If only the architecture is known, its first sheet is used. */
export const DATA_SHEETS: readonly DataSheet[] = [
  {
    ...SM_89,
    name: 'NVIDIA L4',
    multiprocessors: 58,
    l2Bytes: 48 * MIB,
    memoryGbPerSecond: 300,
    fp16TensorTflops: 121,
    fp32Tflops: 30.3,
    usdPerHour: 0.68,
    source: 'NVIDIA L4 data sheet (242 TFLOP/s with sparsity, half of it dense)',
  },
  {
    ...SM_90,
    name: 'NVIDIA H200',
    multiprocessors: 132,
    l2Bytes: 60 * MIB,
    memoryGbPerSecond: 4800,
    fp16TensorTflops: 989,
    fp32Tflops: 67,
    usdPerHour: undefined,
    source: 'NVIDIA H200 data sheet (1979 TFLOP/s with sparsity, half of it dense); L2 by cudaDeviceProp',
  },
  {
    ...SM_90,
    name: 'NVIDIA H100 80GB HBM3',
    multiprocessors: 132,
    l2Bytes: 50 * MIB,
    memoryGbPerSecond: 3350,
    fp16TensorTflops: 989,
    fp32Tflops: 67,
    usdPerHour: undefined,
    source: 'NVIDIA H100 SXM data sheet (1979 TFLOP/s with sparsity, half of it dense)',
  },
  {
    ...SM_90,
    name: 'NVIDIA H100 PCIe',
    multiprocessors: 114,
    l2Bytes: 50 * MIB,
    memoryGbPerSecond: 2000,
    fp16TensorTflops: 756,
    fp32Tflops: 51,
    usdPerHour: undefined,
    source: 'NVIDIA H100 PCIe data sheet (1513 TFLOP/s with sparsity, half of it dense)',
  },
  {
    ...SM_80,
    name: 'NVIDIA A100-SXM4-80GB',
    multiprocessors: 108,
    l2Bytes: 40 * MIB,
    memoryGbPerSecond: 2039,
    fp16TensorTflops: 312,
    fp32Tflops: 19.5,
    usdPerHour: undefined,
    source: 'NVIDIA A100 data sheet, SXM 80 GB',
  },
  {
    ...SM_80,
    name: 'NVIDIA A100-SXM4-40GB',
    multiprocessors: 108,
    l2Bytes: 40 * MIB,
    memoryGbPerSecond: 1555,
    fp16TensorTflops: 312,
    fp32Tflops: 19.5,
    usdPerHour: undefined,
    source: 'NVIDIA A100 data sheet, 40 GB',
  },
  {
    ...SM_80,
    name: 'NVIDIA A100 80GB PCIe',
    multiprocessors: 108,
    l2Bytes: 40 * MIB,
    memoryGbPerSecond: 1935,
    fp16TensorTflops: 312,
    fp32Tflops: 19.5,
    usdPerHour: undefined,
    source: 'NVIDIA A100 data sheet, PCIe 80 GB',
  },
  {
    ...SM_89,
    name: 'NVIDIA GeForce RTX 4090',
    multiprocessors: 128,
    l2Bytes: 72 * MIB,
    memoryGbPerSecond: 1008,
    fp16TensorTflops: 165.2,
    fp32Tflops: 82.6,
    usdPerHour: undefined,
    source: 'NVIDIA Ada GPU architecture white paper, dense fp16 with fp32 accumulation',
  },
  {
    ...SM_86,
    name: 'NVIDIA A10',
    multiprocessors: 72,
    l2Bytes: 6 * MIB,
    memoryGbPerSecond: 600,
    fp16TensorTflops: 125,
    fp32Tflops: 31.2,
    usdPerHour: undefined,
    source: 'NVIDIA A10 data sheet',
  },
];

/**
 * The sheet of a device by the name that its driver gives; undefined if unknown, because a wrong roofline is worse than
 * a missing one.
 */
export function findDataSheet(name: string): DataSheet | undefined {
  const plain = name.trim().toLowerCase();
  // The emulator reports the limits of an L4.
  if (/emulator \(l4 limits\)/.test(plain)) return DATA_SHEETS[0];
  const bare = (text: string) => text.toLowerCase().replace(/^nvidia /, '');
  return DATA_SHEETS.find((sheet) => bare(sheet.name) === bare(plain));
}

/** The sheet of a device, or of another one with the architecture that code is built for; undefined if unknown. */
export function sheetForBuild(name: string, arch: string): DataSheet | undefined {
  const bare = arch.replace(/[af]$/, '');
  const own = findDataSheet(name);
  return own === undefined || own.arch === bare ? own : DATA_SHEETS.find((sheet) => sheet.arch === bare);
}

/** The limits of an architecture ("sm_90a" has those of sm_90); undefined if unknown. */
export function archLimits(arch: string): ArchLimits | undefined {
  return DATA_SHEETS.find((sheet) => sheet.arch === arch.replace(/[af]$/, ''));
}

type OccupancyLimiter = 'registers' | 'shared memory' | 'threads' | 'CTAs';

export interface Occupancy {
  readonly ctasPerSm: number;
  readonly warpsPerSm: number;
  /** Percentage of the warps that an SM can hold. */
  readonly percent: number;
  /** The limiting resource; if there are several, the first of registers, shared memory, threads, CTAs. */
  readonly limiter: OccupancyLimiter;
}

interface CtaResources {
  registers: number;
  smem: number;
  threads: number;
}

/**
 * CTAs that fit on an SM at once, calculated like NVIDIA's cuda_occupancy.h. `registers` is per thread, `smem` is bytes
 * per CTA (static and dynamic), `threads` is per CTA. 0 CTAs means that the kernel cannot be launched.
 */
export function occupancy({ registers, smem, threads }: CtaResources, sheet: ArchLimits): Occupancy {
  const warpsPerCta = Math.ceil(threads / WARP_THREADS);
  const bounds: [OccupancyLimiter, number][] = [
    ['registers', ctasByRegisters(registers, warpsPerCta, sheet)],
    ['shared memory', ctasBySmem(smem, sheet)],
    ['threads', threads > MAX_THREADS_PER_CTA ? 0 : Math.floor(sheet.maxThreadsPerSm / WARP_THREADS / warpsPerCta)],
    ['CTAs', sheet.maxCtasPerSm],
  ];
  const [limiter, ctasPerSm] = bounds.reduce((least, bound) => (bound[1] < least[1] ? bound : least));
  const warpsPerSm = ctasPerSm * warpsPerCta;
  return { ctasPerSm, warpsPerSm, percent: (100 * warpsPerSm) / (sheet.maxThreadsPerSm / WARP_THREADS), limiter };
}

/**
 * Registers that a CTA occupies on its SM. Each warp gets its own registers, and the number of warps is rounded up to a
 * multiple of the sub-partitions.
 */
export const registersPerCta = (registers: number, threads: number): number =>
  registersPerWarpOf(registers) * roundUp(Math.ceil(threads / WARP_THREADS), SUB_PARTITIONS);

const registersPerWarpOf = (registers: number): number => roundUp(Math.max(registers, 1) * WARP_THREADS, REGISTER_UNIT);

function ctasByRegisters(registers: number, warpsPerCta: number, sheet: ArchLimits): number {
  if (registers > sheet.maxRegistersPerThread) return 0;
  if (registersPerCta(registers, warpsPerCta * WARP_THREADS) > sheet.registersPerSm) return 0;
  const registersPerWarp = registersPerWarpOf(registers);
  const warpsPerSubPartition = Math.floor(sheet.registersPerSm / SUB_PARTITIONS / registersPerWarp);
  return Math.floor((warpsPerSubPartition * SUB_PARTITIONS) / warpsPerCta);
}

function ctasBySmem(smem: number, sheet: ArchLimits): number {
  if (smem > sheet.smemPerCtaOptinBytes) return 0;
  return Math.floor(sheet.smemPerSmBytes / roundUp(smem + sheet.smemReservedPerCtaBytes, SMEM_UNIT_BYTES));
}

const roundUp = (value: number, unit: number) => Math.ceil(value / unit) * unit;

/**
 * Dense tensor-core peak for a dtype in TFLOP/s. bf16 runs at fp16's rate, fp32 runs as TF32 at half that rate, and
 * 8-bit formats run at twice that rate (fp8 from sm_89 on).
 */
const tensorTflops = ({ fp16TensorTflops }: Pick<DataSheet, 'fp16TensorTflops'>, dtype: TensorDtype): number =>
  fp16TensorTflops * DTYPES[dtype].tensorRate;

export interface Work {
  flops: number;
  bytes: number;
  /** Dtype of the tensors. */
  dtype: TensorDtype;
  /** False for a kernel that is known to use no tensor cores. */
  tensorCores?: boolean | undefined;
}

/** Throughput of a device's arithmetic. fp32Tflops is 0 if it is not known. */
type ArithmeticRates = Pick<DataSheet, 'fp16TensorTflops' | 'fp32Tflops'>;

/**
 * The units that bound a kernel's arithmetic, and their peak in TFLOP/s. A kernel that is known to use no tensor cores
 * cannot come near their peak, so fp32's applies.
 */
export const arithmeticPeak = (
  rates: ArithmeticRates,
  { dtype, tensorCores }: Pick<Work, 'dtype' | 'tensorCores'>,
): { tflops: number; units: 'fp32 units' | 'tensor cores' } =>
  tensorCores === false && rates.fp32Tflops > 0
    ? { tflops: rates.fp32Tflops, units: 'fp32 units' }
    : { tflops: tensorTflops(rates, dtype), units: 'tensor cores' };

/** Minimum time on the device: the larger of the arithmetic at its peak and the traffic at full memory bandwidth. */
export const rooflineSeconds = (
  { flops, bytes, ...kernel }: Work,
  sheet: ArithmeticRates & Pick<DataSheet, 'memoryGbPerSecond'>,
): number => Math.max(flops / (arithmeticPeak(sheet, kernel).tflops * 1e12), bytes / (sheet.memoryGbPerSecond * 1e9));

interface WaveInput {
  /** In formatShape()'s form. */
  shape: string;
  ctas: number;
  /** CTAs that a multiprocessor holds at once, at least 1. */
  ctasPerSm: number;
  multiprocessors: number;
}

/**
 * Computes how the CTAs of a launch fill a device: waves and tail efficiency. Waves are the CTAs divided by those that
 * the device holds at once. In a single wave the CTAs are spread over the multiprocessors, and the one with the most
 * CTAs sets the pace. With more waves, the last one takes as long as a full one. All CTAs are assumed to take the same
 * time.
 */
export function launchWaves({ shape, ctas, ctasPerSm, multiprocessors }: WaveInput): LaunchWaves {
  const waves = ctas / (multiprocessors * ctasPerSm);
  const efficiency =
    waves <= 1 ? ctas / (multiprocessors * Math.ceil(ctas / multiprocessors)) : waves / Math.ceil(waves);
  const tailEfficiencyPercent = 100 * efficiency;
  const idle = 100 - tailEfficiencyPercent;
  const count = ctas.toLocaleString('en');
  const text =
    waves <= 1
      ? `${count} CTAs on ${multiprocessors} SMs: one wave, ${idle.toFixed(0)} % idle`
      : `${count} work items in ${waves.toFixed(1)} waves on ${multiprocessors} SMs, ${idle.toFixed(0)} % idle`;
  return create(LaunchWavesSchema, { shape, ctas: BigInt(ctas), multiprocessors, waves, tailEfficiencyPercent, text });
}
