/** What every export is made of: a kernel's manifest, the variant that was built, its machine code and its sources. */
import type { Manifest } from '@flashcore/shared/kernels';

export interface SourceText {
  /** As includes name it: "flashcore_v6.cu", "primitives/mma.cuh". */
  readonly path: string;
  readonly text: string;
}

export interface ExportedKernel {
  readonly manifest: Manifest;
  /** Parameters of the variant by name. */
  readonly parameters: Readonly<Record<string, number>>;
  /** nvcc's target, for example "sm_90a". */
  readonly arch: string;
  readonly cubin: Uint8Array;
  /** The translation unit first, then what it includes. */
  readonly sources: readonly SourceText[];
  /** nvcc's flags that decide the machine code: standard, optimisation, fast math, macros, architecture. */
  readonly flags: readonly string[];
  readonly origin: ExportOrigin;
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
