/** The data behind every export: a kernel's manifest, the variant that was built, its machine code and its sources. */
import {
  type Manifest,
  type TensorDtype,
  checkShape,
  parseShape,
  type ManifestArgument,
} from '@flashcore/shared/kernels';
import type { Shape } from '@flashcore/shared/contract';

export interface SourceText {
  /** Path as an include names it: "flashcore_v6.cu", "primitives/mma.cuh". */
  readonly path: string;
  readonly text: string;
}

export interface ExportedCubin {
  /** Entries in this file; empty if it contains all of the kernel's entries. */
  readonly entries: readonly string[];
  readonly bytes: Uint8Array;
}

export interface ExportedKernel {
  readonly manifest: Manifest;
  /** The variant's parameters by name. */
  readonly parameters: Readonly<Record<string, number>>;
  /** Dtype of Q, K, V and O. */
  readonly dtype: TensorDtype;
  /** nvcc's target, for example "sm_90a". */
  readonly arch: string;
  /** Machine code: one file, or one for each entry that was compiled separately. */
  readonly cubins: readonly ExportedCubin[];
  /** The translation unit first, then the files that it includes. */
  readonly sources: readonly SourceText[];
  /** nvcc flags that affect the machine code: standard, optimization, fast math, macros, architecture. */
  readonly flags: readonly string[];
  readonly origin: ExportOrigin;
  /** The runner's GPU measurements of this exact build, by shape; empty if there are none. */
  readonly measured: readonly MeasuredShape[];
  /** SPDX name of the license; undefined for a user's own kernel, whose license is unknown here. */
  readonly license: string | undefined;
  /** The runner's last verdict; undefined if there is none. */
  readonly verdict: LastVerdict | undefined;
  /** The kernel of the backward pass, which reads what this kernel writes. Set only for PyTorch files. */
  readonly backward?: ExportedKernel;
}

/** The runner's newest verdict on the exported kernel. */
export interface LastVerdict {
  readonly right: boolean;
  /** Outcome as in the contract: "WRONG_RESULT". */
  readonly outcome: string;
  readonly job: string;
}

/** A shape that a stored job found correct and timed hot in turns with sdpa/math. */
export interface MeasuredShape {
  /** Shape such as "2x8x512x64c". */
  readonly shape: string;
  readonly job: string;
  readonly device: string;
  readonly protocol: string;
  /** Versions of the libraries measured with the kernel. */
  readonly libraries: Readonly<Record<string, string>>;
  /** Time of the measurement, in the form of RFC 3339. */
  readonly time: string;
  /** Medians of the kernel and of sdpa/math, in microseconds. */
  readonly us: number;
  readonly referenceUs: number;
  readonly maxAbsoluteError: number;
  readonly maxRelativeError: number;
}

/** The origin of the machine code. */
interface ExportOrigin {
  readonly buildId: string;
  readonly job: string;
  readonly label: string;
  readonly compiler: string;
  readonly runner: string;
  readonly sourceDigest: string;
}

/** A name that is unique for each build of a kernel: its id and the first digits of the build. */
export const exportName = ({ manifest, origin }: Pick<ExportedKernel, 'manifest' | 'origin'>): string =>
  `${manifest.id}_${origin.buildId.slice(0, 8)}`;

/** The verdict as a line of PROVENANCE. */
export const verdictText = ({ verdict }: Pick<ExportedKernel, 'verdict'>): string =>
  verdict ? `${verdict.right ? 'right' : verdict.outcome} in ${verdict.job}` : 'not judged by the runner that built it';

/** The notice in each file of a kernel that is known to be wrong; otherwise undefined. */
export const unverifiedNotice = ({
  manifest,
  verdict,
}: Pick<ExportedKernel, 'manifest' | 'verdict'>): string | undefined =>
  verdict && !verdict.right
    ? `UNVERIFIED: ${manifest.id} was ${verdict.outcome} when it was last judged (${verdict.job}), and exported with --unverified`
    : undefined;

/** Python that warns at import if the kernel is known to be wrong; otherwise empty. */
export function warningAtImport(kernel: Pick<ExportedKernel, 'manifest' | 'verdict'>): string {
  const text = unverifiedNotice(kernel);
  return text === undefined ? '' : `import warnings\n\nwarnings.warn(${JSON.stringify(text)}, stacklevel=2)\n`;
}

// The canonical shape, a shape with half of its work, one whose length is not a multiple of a tile, and longer ones;
// each with and without the mask.
const SHAPES = ['2x8x512x64', '1x8x512x64', '1x8x113x64', '2x8x1024x64', '1x8x2048x64'];

/** Shapes for exported data sets, limited to those that the kernel takes. */
export const exportShapes = ({ manifest, parameters }: Pick<ExportedKernel, 'manifest' | 'parameters'>): Shape[] =>
  SHAPES.flatMap((text) => [parseShape(text), parseShape(`${text}c`)]).filter(
    (shape) => checkShape(manifest, { parameters }, shape) === undefined,
  );

const EXPORTED_KINDS = ['tensor', 'workspace', 'int32', 'float32', 'tensorMap'] as const;
export type ExportedArgument = Extract<ManifestArgument, { kind: (typeof EXPORTED_KINDS)[number] }>;
/** Programs in Python also pass null pointers, which kernels in languages other than CUDA C++ take. */
export type PythonArgument = ExportedArgument | Extract<ManifestArgument, { kind: 'null' }>;

/** True if all exported programs can pass the argument. */
export const isExported = (argument: ManifestArgument): argument is ExportedArgument =>
  EXPORTED_KINDS.some((kind) => kind === argument.kind);

/** True if exported programs in Python can pass the argument. */
export const isExportedInPython = (argument: ManifestArgument): argument is PythonArgument =>
  argument.kind === 'null' || isExported(argument);

/** Narrows the type; exportProblem() has already refused kernels with other arguments. */
export function exported<Argument extends ManifestArgument>(
  argument: ManifestArgument,
  isPassed: (each: ManifestArgument) => each is Argument,
): Argument {
  if (!isPassed(argument)) throw new TypeError(`exports must pass ${EXPORTED_KINDS.join(', ')}, got ${argument.kind}`);
  return argument;
}
