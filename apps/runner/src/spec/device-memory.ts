/**
 * Refuses shapes that can't fit into a device's memory before a job exists; otherwise the job would hold the device for
 * minutes to find out.
 */
import { invalidRequest, type Device, type FieldViolation, type Shape } from '@flashcore/shared/contract';
import {
  checkShape,
  formatShape,
  planLaunches,
  sameShape,
  tensorBytes,
  type LaunchPlan,
  type Manifest,
  type ResolvedVariant,
} from '@flashcore/shared/kernels';
import type { JobMethod } from '../jobs/job-context.ts';

export interface MemoryUses {
  method: JobMethod;
  /** The shapes as requested; if there are none, those of a set are used. */
  asked: { verify?: { shapes?: readonly Shape[] }; benchmark?: { shapes?: readonly Shape[] } };
  verify: { shapes: readonly Shape[] } | undefined;
  benchmark: { shapes: readonly Shape[] } | undefined;
  profile: { shape: Shape } | undefined;
}

interface Kernel {
  manifest: Manifest;
  resolved: ResolvedVariant;
}

interface Use {
  /** Request field that the shape comes from. */
  field: (shape: Shape) => string;
  shapes: readonly Shape[];
  /** Number of simultaneous sets of tensors and workspace on the device. */
  sets: number;
}

const GIB = 1024 ** 3;
/** A benchmark's pool of inputs takes up to twice a launch's memory. */
const BENCHMARK_SETS = 2;

/**
 * Errors: INVALID_REQUEST. Memory of the driver and other processes is not counted, so an accepted job can still end as
 * OUT_OF_MEMORY.
 */
export function requireMemory(device: Device, kernel: Kernel, uses: MemoryUses): void {
  // Unknown while no node of the partition has registered. The node that takes the job checks the shapes then.
  if (device.memoryBytes === 0n) return;
  const violations = usesOf(uses).flatMap(({ field, shapes, sets }) =>
    shapes.flatMap((shape) => {
      const description = excess(device, kernel, { shape, sets });
      return description === undefined ? [] : [{ field: field(shape), description } satisfies FieldViolation];
    }),
  );
  if (violations.length > 0) throw invalidRequest(...violations);
}

/** The verification before a benchmark needs less than the benchmark itself, so it is not listed. */
function usesOf({ method, asked, verify, benchmark, profile }: MemoryUses): Use[] {
  const part = (name: string): string => (method === 'runExperiment' ? name : 'settings');
  const listed =
    (name: string, shapes: readonly Shape[] = []) =>
    (shape: Shape): string => {
      const index = shapes.findIndex((each) => sameShape(each, shape));
      return `${part(name)}.shapes${index < 0 ? '' : `[${index}]`}`;
    };
  return [
    ...(verify && method !== 'benchmark'
      ? [{ field: listed('verify', asked.verify?.shapes), shapes: verify.shapes, sets: 1 }]
      : []),
    ...(benchmark
      ? [{ field: listed('benchmark', asked.benchmark?.shapes), shapes: benchmark.shapes, sets: BENCHMARK_SETS }]
      : []),
    ...(profile ? [{ field: () => `${part('profile')}.shape`, shapes: [profile.shape], sets: 1 }] : []),
  ];
}

/** Required and available memory for a shape; undefined if it fits, or the kernel does not take it. */
function excess(
  device: Device,
  { manifest, resolved }: Kernel,
  { shape, sets }: { shape: Shape; sets: number },
): string | undefined {
  if (checkShape(manifest, resolved, shape) !== undefined) return undefined;
  const plan = planLaunches(manifest, resolved, shape);
  const workspace = plan.workspace.reduce((sum, { bytes }) => sum + bytes, 0);
  const needed = sets * (tensorBytes(plan.tensors) + workspace);
  if (needed <= Number(device.memoryBytes)) return undefined;
  const tensors = plan.tensors.map(({ name }) => name).join(', ');
  const what = `${sets} ${sets === 1 ? 'set' : 'sets'} of ${tensors}${workspace > 0 ? ' and workspace' : ''}`;
  return `must be a shape that fits into the ${gib(Number(device.memoryBytes))} GiB of ${device.deviceId}, got ${formatShape(shape)}, which takes ${gib(needed)} GiB (${what})`;
}

/** What a launch's tensors and workspace take, and what the device has, for a launch that found too little free. */
export function memoryText(device: Device, { tensors, workspace }: LaunchPlan): string {
  const needed = tensorBytes(tensors) + workspace.reduce((sum, { bytes }) => sum + bytes, 0);
  return `the case takes ${gib(needed)} GiB (${tensors.map(({ name }) => name).join(', ')}${workspace.length > 0 ? ' and workspace' : ''}), and ${device.deviceId} has ${gib(Number(device.memoryBytes))} GiB, of which too little was free`;
}

const gib = (bytes: number): string => (bytes / GIB).toFixed(1);
