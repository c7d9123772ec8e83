import type { ExportFormat } from './export-options.ts';
import type { ExportedKernel } from './exported-kernel.ts';
import { flashInferFiles } from './flashinfer.ts';
import { kernelBuilderFiles } from './kernel-builder.ts';
import { kernelBenchFiles } from './kernelbench.ts';
import { popcornFile } from './popcorn.ts';
import { robustKbenchFiles } from './robust-kbench.ts';
import { torchFile } from './torch-file.ts';

/** A file's text, or texts by path below a folder. */
export type ExportedFiles = string | Readonly<Record<string, string>>;

/** What each option writes. */
export const EXPORTS: Readonly<Record<ExportFormat, (kernel: ExportedKernel) => ExportedFiles>> = {
  torch: torchFile,
  kernelbench: kernelBenchFiles,
  flashinfer: flashInferFiles,
  robustKbench: robustKbenchFiles,
  popcorn: popcornFile,
  hf: kernelBuilderFiles,
};
