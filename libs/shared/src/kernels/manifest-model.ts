/** A parsed and checked manifest. */
import { FindingKind, type Shape } from '../generated/flashcore/runner/v1/kernel_pb.js';
import type { Fill, TensorDtype } from '../data/dtype.ts';
import type { Expression } from '../data/expression.ts';
import type { Problem } from '../problems/problem.ts';
import type { OwnGate } from './gates/gate.ts';
import { TENSOR_MAP_BYTES, type Swizzle } from './launch-limits.ts';

interface FaultyKernel {
  readonly finding: FindingKind;
  readonly findingsOnGpu: FindingKind[];
  readonly shape: Shape;
  readonly needsPtxEngine: boolean;
}

export interface Manifest {
  /** The file's path, for texts. */
  readonly path: string;
  readonly id: string;
  readonly title: string;
  readonly lesson: string;
  /** The problem that the kernel solves. */
  readonly problem: Problem;
  /** Names of axes, attributes, parameters and constants that its expressions and arguments use. */
  readonly uses: ReadonlySet<string>;
  /** The previous step on the ladder. */
  readonly after: string | undefined;
  /** The translation unit, relative to the kernel's folder. */
  readonly source: string;
  /** Minimum architecture ("sm_80"), or the only one if exactArch is set. */
  readonly minArch: string;
  readonly exactArch: boolean;
  /** 'ptx': only the PTX engine runs it. False: it needs instructions that the emulator lacks. */
  readonly emulated: boolean | 'ptx';
  /**
   * `inputs` is the dtype of Q, K, V and O. In a list, the first entry whose condition holds applies; if none does,
   * fp16.
   */
  readonly math: {
    inputs: TensorDtype | readonly { dtype: TensorDtype; when: Expression }[];
    accumulate: 'fp16' | 'fp32' | { fp32When: Expression };
  };
  readonly limits: readonly ManifestLimit[];
  readonly parameters: Readonly<Record<string, ManifestParameter>>;
  readonly configs: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** `flags` are members of COMPILER_FLAGS, in nvcc's syntax. */
  readonly compile: { fastMath: boolean; maxRegisters: number; flags: readonly string[] };
  /** Tensors whose dimensions have a different order in memory than in the problem. */
  readonly layouts: readonly ManifestLayout[];
  readonly workspace: readonly ManifestWorkspace[];
  /** Initial value of O before each run; undefined if the kernel writes O without reading it. */
  readonly initialOutput: number | undefined;
  readonly constants: readonly ManifestConstant[];
  readonly launches: readonly ManifestLaunch[];
  /**
   * The findings that a run of a faulty or cheating kernel must end with. UNSPECIFIED means none, because its trick has
   * no effect. On a GPU, which detects less, the findings are `findingsOnGpu`. `needsPtxEngine`: the emulator's other
   * engine finds something else, or nothing.
   */
  readonly faulty: FaultyKernel | undefined;
  /** Why there is no USE_WMMA to turn off the tensor cores; undefined if there is one, or the manifest does not say. */
  readonly toggle: string | undefined;
  /** Why the kernel may be neither compared with nor accepted; undefined if it may. */
  readonly deprecated: string | undefined;
  readonly expectations: readonly ManifestExpectation[];
  readonly gates: readonly OwnGate[];
}

/** A figure that a note claimed or projected; `low` and `high` are equal for a single figure. */
interface ManifestExpectation {
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

/** Memory that a kernel gets in addition to its tensors. */
interface ManifestWorkspace {
  readonly name: string;
  readonly bytes: Expression;
  /** Initial value of every element before each run of the launches; undefined: the memory is not initialized. */
  readonly initial: Fill | undefined;
}

/** The order of a tensor's dimensions in memory. */
interface ManifestLayout {
  readonly tensor: TensorName;
  /** Outermost first, as indices of the problem's dimensions. */
  readonly order: readonly number[];
  /** Condition on the parameters; undefined: in every variant. */
  readonly when: Expression | undefined;
}

interface ManifestLimit {
  readonly require: Expression;
  readonly because: string;
}
export interface ManifestParameter {
  readonly values: readonly number[];
  readonly default: number;
  /** A fact of the device that replaces the default: the entry of `values` nearest to it is used. */
  readonly ofDevice?: 'multiprocessors' | undefined;
  readonly about: string;
}

interface ManifestConstant {
  readonly name: string;
  readonly value: Expression;
  /** Whether the value depends on the shape. The other constants are known when the kernel is compiled. */
  readonly ofShape: boolean;
}

export interface ManifestLaunch {
  /** The launch's key in the file, for texts: `launches[0]`. */
  readonly key: string;
  readonly entry: string;
  readonly when: Expression | undefined;
  readonly grid: readonly [Expression, Expression, Expression];
  readonly block: readonly [Expression, Expression, Expression];
  /** Dynamic shared memory in bytes. */
  readonly sharedBytes: Expression;
  readonly cluster: readonly [Expression, Expression, Expression] | undefined;
  /** All CTAs run at the same time and may wait for each other with grid.sync(). */
  readonly cooperative: boolean;
  /** May start before the previous launch has ended, and waits for it with cudaGridDependencySynchronize(). */
  readonly programmatic: boolean;
  readonly l2Persist: { readonly tensors: readonly TensorName[]; readonly when: Expression | undefined };
  readonly arguments: readonly ManifestArgument[];
}

/** Name of one of the problem's tensors. */
export type TensorName = string;

/** Kinds of numbers that a kernel takes by value, with their sizes in bytes. */
const NUMBER_BYTES = { bool: 1, int8: 1, int16: 2, int32: 4, int64: 8, float32: 4, float64: 8 } as const;
export type NumberKind = keyof typeof NUMBER_BYTES;

/** Separate types per kind, so that a switch can distinguish them. */
export type NumberOf<Value> = { [Kind in NumberKind]: { kind: Kind; value: Value } }[NumberKind];

const POINTER_BYTES = 8;

export type PlainManifestArgument =
  | { kind: 'tensor'; tensor: TensorName }
  | { kind: 'workspace'; name: string }
  | { kind: 'null' }
  | NumberOf<Expression>
  | { kind: 'tensorMap'; tensor: TensorName; box: readonly Expression[]; swizzle: Swizzle };

/** A field of a struct that a kernel takes by value. `at` is its offset in bytes. */
export interface StructField<Value> {
  readonly name: string;
  readonly at: number;
  readonly value: Value;
}

export type ManifestArgument =
  | PlainManifestArgument
  /** An argument of only those variants whose parameters fulfill `when`. */
  | { kind: 'tensor'; tensor: TensorName; when: Expression }
  | { kind: 'struct'; bytes: number; fields: readonly StructField<PlainManifestArgument>[] };

/** Size of an argument that is not a struct. */
export function argumentBytes({ kind }: { kind: PlainManifestArgument['kind'] }): number {
  if (kind === 'tensor' || kind === 'workspace' || kind === 'null') return POINTER_BYTES;
  return kind === 'tensorMap' ? TENSOR_MAP_BYTES : NUMBER_BYTES[kind];
}
