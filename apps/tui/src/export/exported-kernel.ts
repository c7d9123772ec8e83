/** The data behind every export: a kernel's manifest, the variant that was built, its machine code and its sources. */
import type { Manifest, TensorDtype } from '@flashcore/shared/kernels';

export interface SourceText {
  /** Path as in includes: "flashcore_v6.cu", "primitives/mma.cuh". */
  readonly path: string;
  readonly text: string;
}

export interface ExportedCubin {
  /** Entries in this file; empty for all of the kernel's entries. */
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
}

/** The runner's newest verdict on the exported kernel. */
export interface LastVerdict {
  readonly right: boolean;
  /** Outcome as in the contract: "WRONG_RESULT". */
  readonly outcome: string;
  readonly job: string;
}

/** A shape of a stored job that was correct and timed hot in turns with sdpa/math. */
export interface MeasuredShape {
  /** Shape such as "2x8x512x64c". */
  readonly shape: string;
  readonly job: string;
  readonly device: string;
  readonly protocol: string;
  /** Versions of the libraries measured with the kernel. */
  readonly libraries: Readonly<Record<string, string>>;
  /** RFC 3339. */
  readonly time: string;
  /** Medians. */
  readonly us: number;
  readonly referenceUs: number;
  readonly maxAbsoluteError: number;
  readonly maxRelativeError: number;
}

/** The origin of the machine code. */
export interface ExportOrigin {
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
