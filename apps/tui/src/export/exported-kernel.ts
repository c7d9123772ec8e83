/** What every export is made of: a kernel's manifest, the variant that was built, its machine code and its sources. */
import type { Manifest, TensorDtype } from '@flashcore/shared/kernels';

export interface SourceText {
  /** As includes name it: "flashcore_v6.cu", "primitives/mma.cuh". */
  readonly path: string;
  readonly text: string;
}

export interface ExportedCubin {
  /** Entries that it has; empty: all of the kernel's. */
  readonly entries: readonly string[];
  readonly bytes: Uint8Array;
}

export interface ExportedKernel {
  readonly manifest: Manifest;
  /** Parameters of the variant by name. */
  readonly parameters: Readonly<Record<string, number>>;
  /** Of Q, K, V and O. */
  readonly dtype: TensorDtype;
  /** nvcc's target, for example "sm_90a". */
  readonly arch: string;
  /** Machine code: a file, or one for each entry that was compiled apart. */
  readonly cubins: readonly ExportedCubin[];
  /** The translation unit first, then what it includes. */
  readonly sources: readonly SourceText[];
  /** nvcc's flags that decide the machine code: standard, optimisation, fast math, macros, architecture. */
  readonly flags: readonly string[];
  readonly origin: ExportOrigin;
  /** What the runner has measured of this very build on a GPU, by shape; empty: nothing. */
  readonly measured: readonly MeasuredShape[];
  /** SPDX's name of the licence; undefined: a user's own kernel, for which nothing here can claim one. */
  readonly license: string | undefined;
  /** The runner's last verdict; undefined: there is none. */
  readonly verdict: LastVerdict | undefined;
}

/** The newest verdict of the runner on what is exported. */
export interface LastVerdict {
  readonly right: boolean;
  /** As the contract names it: "WRONG_RESULT". */
  readonly outcome: string;
  readonly job: string;
}

/** A shape of a stored job, right and timed hot in turns with sdpa/math. */
export interface MeasuredShape {
  /** "2x8x512x64c". */
  readonly shape: string;
  readonly job: string;
  readonly device: string;
  readonly protocol: string;
  /** Versions of what was measured beside it. */
  readonly libraries: Readonly<Record<string, string>>;
  /** RFC 3339. */
  readonly time: string;
  /** Medians. */
  readonly us: number;
  readonly referenceUs: number;
  readonly maxAbsoluteError: number;
  readonly maxRelativeError: number;
}

/** Where the machine code is from. */
export interface ExportOrigin {
  readonly buildId: string;
  readonly job: string;
  readonly label: string;
  readonly compiler: string;
  readonly runner: string;
  readonly sourceDigest: string;
}

/** A name that two builds of a kernel do not share: its id and the first digits of the build. */
export const exportName = ({ manifest, origin }: Pick<ExportedKernel, 'manifest' | 'origin'>): string =>
  `${manifest.id}_${origin.buildId.slice(0, 8)}`;

/** The verdict as one line of PROVENANCE. */
export const verdictText = ({ verdict }: Pick<ExportedKernel, 'verdict'>): string =>
  verdict ? `${verdict.right ? 'right' : verdict.outcome} in ${verdict.job}` : 'not judged by the runner that built it';

/** The notice in each file of a kernel that is known to be wrong; undefined: it is not known to be. */
export const unverifiedNotice = ({
  manifest,
  verdict,
}: Pick<ExportedKernel, 'manifest' | 'verdict'>): string | undefined =>
  verdict && !verdict.right
    ? `UNVERIFIED: ${manifest.id} was ${verdict.outcome} when it was last judged (${verdict.job}), and exported with --unverified`
    : undefined;

/** Python that warns at import where a kernel is known to be wrong, else an empty text. */
export function warningAtImport(kernel: Pick<ExportedKernel, 'manifest' | 'verdict'>): string {
  const text = unverifiedNotice(kernel);
  return text === undefined ? '' : `import warnings\n\nwarnings.warn(${JSON.stringify(text)}, stacklevel=2)\n`;
}
