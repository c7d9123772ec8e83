/** What a manifest says, read and checked. */
import { FindingKind, type Shape } from '../generated/flashcore/runner/v1/kernel_pb.js';
import type { Fill, TensorDtype } from '../data/dtype.ts';
import type { Expression } from '../data/expression.ts';
import type { Problem } from '../problems/problem.ts';
import type { OwnGate } from './gates/gate.ts';

export interface FaultyKernel {
  readonly finding: FindingKind;
  readonly findingsOnGpu: FindingKind[];
  readonly shape: Shape;
  readonly needsPtxEngine: boolean;
}

export interface Manifest {
  /** Where it was read from, for texts. */
  readonly path: string;
  readonly id: string;
  readonly title: string;
  readonly lesson: string;
  /** What it computes. */
  readonly problem: Problem;
  /** Names of axes, attributes, parameters and constants that its expressions and arguments use. */
  readonly uses: ReadonlySet<string>;
  /** The step before it on the ladder. */
  readonly after: string | undefined;
  /** The translation unit, relative to the kernel's folder. */
  readonly source: string;
  /** Least architecture ("sm_80"), or the only one where exactArch. */
  readonly minArch: string;
  readonly exactArch: boolean;
  /** 'ptx': by the PTX engine alone. False when it needs instructions that the emulator does not have. */
  readonly emulated: boolean | 'ptx';
  /** `inputs` is the dtype of Q, K, V and O: one, or the first whose condition the parameters fulfil, else fp16. */
  readonly math: {
    inputs: TensorDtype | readonly { dtype: TensorDtype; when: Expression }[];
    accumulate: 'fp16' | 'fp32' | { fp32When: Expression };
  };
  readonly limits: readonly ManifestLimit[];
  readonly parameters: Readonly<Record<string, ManifestParameter>>;
  readonly configs: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** `flags`: of COMPILER_FLAGS, as nvcc takes them. */
  readonly compile: { fastMath: boolean; maxRegisters: number; flags: readonly string[] };
  readonly workspace: readonly ManifestWorkspace[];
  /** What all of O is before each run; undefined: the kernel writes it without reading. */
  readonly initialOutput: number | undefined;
  readonly constants: readonly ManifestConstant[];
  readonly launches: readonly ManifestLaunch[];
  /**
   * The findings that a run of a faulty or a cheating kernel must end with (UNSPECIFIED: none, its trick gains
   * nothing); on a GPU those of `findingsOnGpu`, which see less. `needsPtxEngine`: the emulator's other engine finds
   * something else, or nothing.
   */
  readonly faulty: FaultyKernel | undefined;
  /** Why there is no USE_WMMA to turn the tensor cores off with; undefined: there is, or the manifest does not say. */
  readonly toggle: string | undefined;
  /** Why it must be neither compared with nor accepted; undefined: it may. */
  readonly deprecated: string | undefined;
  readonly expectations: readonly ManifestExpectation[];
  readonly gates: readonly OwnGate[];
}

/** A figure that a note claimed or projected; `low` and `high` are the same for a single figure. */
export interface ManifestExpectation {
  readonly device: string;
  readonly shape: Shape;
  readonly metric: string;
  readonly low: number;
  readonly high: number;
  readonly unit: string;
  readonly kind: 'projected' | 'claimed' | 'measured';
  readonly source: string;
  readonly neverMeasured: boolean;
  readonly note: string | undefined;
}

/** Memory that a kernel is given beside its tensors. */
export interface ManifestWorkspace {
  readonly name: string;
  readonly bytes: Expression;
  /** What every element is before each run of the launches; undefined: whatever was there. */
  readonly initial: Fill | undefined;
}

export interface ManifestLimit {
  readonly require: Expression;
  readonly because: string;
}
export interface ManifestParameter {
  readonly values: readonly number[];
  readonly default: number;
  /** A fact of the device that takes the default's place: of `values` the one nearest to it. */
  readonly ofDevice?: 'multiprocessors' | undefined;
  readonly about: string;
}

export interface ManifestConstant {
  readonly name: string;
  readonly value: Expression;
  /** Whether the shape decides it: the others are known when the kernel is compiled. */
  readonly ofShape: boolean;
}

export interface ManifestLaunch {
  /** Its place in the file, for texts: `launches[0]`. */
  readonly key: string;
  readonly entry: string;
  readonly when: Expression | undefined;
  readonly grid: readonly [Expression, Expression, Expression];
  readonly block: readonly [Expression, Expression, Expression];
  /** Dynamic shared memory in bytes. */
  readonly sharedBytes: Expression;
  readonly cluster: readonly [Expression, Expression, Expression] | undefined;
  /** All CTAs run at the same time and may wait for one another: grid.sync(). */
  readonly cooperative: boolean;
  readonly l2Persist: { readonly tensors: readonly TensorName[]; readonly when: Expression | undefined };
  readonly arguments: readonly ManifestArgument[];
}

/** Of the problem's tensors. */
export type TensorName = string;
export const SWIZZLES = ['none', '32B', '64B', '128B'] as const;
export type Swizzle = (typeof SWIZZLES)[number];

/** Numbers that a kernel takes by value, and their bytes. */
export const NUMBER_BYTES = { bool: 1, int32: 4, int64: 8, float32: 4, float64: 8 } as const;
export type NumberKind = keyof typeof NUMBER_BYTES;

/** Of each kind a type of its own, so that a switch can tell them apart. */
export type NumberOf<Value> = { [Kind in NumberKind]: { kind: Kind; value: Value } }[NumberKind];

const POINTER_BYTES = 8;
const TENSOR_MAP_BYTES = 128;

export type PlainManifestArgument =
  | { kind: 'tensor'; tensor: TensorName }
  | { kind: 'workspace'; name: string }
  | { kind: 'null' }
  | NumberOf<Expression>
  | { kind: 'tensorMap'; tensor: TensorName; box: readonly Expression[]; swizzle: Swizzle };

/** A field of a struct that a kernel takes by value, `at` so many bytes from its begin. */
export interface StructField<Value> {
  readonly name: string;
  readonly at: number;
  readonly value: Value;
}

export type ManifestArgument =
  PlainManifestArgument | { kind: 'struct'; bytes: number; fields: readonly StructField<PlainManifestArgument>[] };

/** Of an argument that is no struct. */
export function argumentBytes({ kind }: { kind: PlainManifestArgument['kind'] }): number {
  if (kind === 'tensor' || kind === 'workspace' || kind === 'null') return POINTER_BYTES;
  return kind === 'tensorMap' ? TENSOR_MAP_BYTES : NUMBER_BYTES[kind];
}
