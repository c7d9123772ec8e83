/** The names that `fa-tui report --format` takes; formats.ts writes them. */
export const REPORT_FORMATS = [
  'final',
  'json',
  'junit',
  'sarif',
  'github',
  'github-action-benchmark',
  'bencher',
  'hyperfine',
] as const;
export type ReportFormatName = (typeof REPORT_FORMATS)[number];
