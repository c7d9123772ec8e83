/** The outputs of `fa-tui export`, one option per row; commands/export.ts creates the files. */
export const EXPORT_OPTIONS = [
  { format: 'torch', option: '--torch <file.py>', about: 'a PyTorch operator in one file, with its machine code' },
  { format: 'wheel', option: '--wheel <folder>', about: 'the same as a package that pip installs' },
  { format: 'kernelbench', option: '--kernelbench <folder>', about: "KernelBench's reference and ModelNew" },
  { format: 'flashinfer', option: '--flashinfer <folder>', about: 'a data set of FlashInfer-Bench with this solution' },
  { format: 'robustKbench', option: '--robust-kbench <folder>', about: "robust-kbench's task folder and forward.cu" },
  { format: 'popcorn', option: '--popcorn <file.py>', about: "a submission for GPU MODE's popcorn-cli" },
  { format: 'hf', option: '--hf <folder>', about: "a source project for Hugging Face's kernel-builder" },
] as const;

export type ExportFormat = (typeof EXPORT_OPTIONS)[number]['format'];
