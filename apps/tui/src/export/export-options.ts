/** What `fa-tui export` writes, an option a row; formats.ts makes the files. */
export const EXPORT_OPTIONS = [
  { format: 'torch', option: '--torch <file.py>', about: 'a PyTorch operator in one file, machine code inside' },
  { format: 'kernelbench', option: '--kernelbench <folder>', about: "KernelBench's reference and ModelNew" },
] as const;

export type ExportFormat = (typeof EXPORT_OPTIONS)[number]['format'];
