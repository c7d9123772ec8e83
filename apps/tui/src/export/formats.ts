import type { ExportFormat } from './export-options.ts';
import type { ExportedKernel } from './exported-kernel.ts';
import { flashInferFiles } from './flashinfer.ts';
import { kernelBuilderFiles } from './kernel-builder.ts';
import { kernelBenchFiles } from './kernelbench.ts';
import { popcornFile } from './popcorn.ts';
import { robustKbenchFiles } from './robust-kbench.ts';
import { torchFile } from './torch-file.ts';
import { wheelFiles } from './torch-wheel.ts';

/** The text of a file, or files by path below a folder. */
export type ExportedFiles = string | Readonly<Record<string, string | Uint8Array>>;

/** The output of each option. */
export const EXPORTS: Readonly<Record<ExportFormat, (kernel: ExportedKernel) => ExportedFiles>> = {
  torch: torchFile,
  wheel: wheelFiles,
  kernelbench: kernelBenchFiles,
  flashinfer: flashInferFiles,
  robustKbench: robustKbenchFiles,
  popcorn: popcornFile,
  hf: kernelBuilderFiles,
};
