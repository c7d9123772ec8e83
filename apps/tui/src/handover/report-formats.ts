import type { Block, Plot } from '../present/blocks.ts';

/** Names for the options of `fa-tui report`. writers.ts writes the formats; commands/report.ts makes the pages. */
export const TEMPLATES = ['final', 'lab-log', 'kernel', 'search'] as const;
export type TemplateName = (typeof TEMPLATES)[number];

/** Output formats of a template. */
export const PAGE_FORMATS = ['markdown', 'html', 'json'] as const;
export type PageFormatName = (typeof PAGE_FORMATS)[number];

/** Formats of files about ended jobs, for other programs. */
export const JOB_FORMATS = [
  'junit',
  'sarif',
  'github',
  'pull-request',
  'github-action-benchmark',
  'bencher',
  'hyperfine',
  'eval-results',
  'fast-p',
] as const;
export type JobFormatName = (typeof JOB_FORMATS)[number];

/** Formats that contain only GPU figures. */
export const BENCHMARK_FORMATS: readonly ReportFormatName[] = ['github-action-benchmark', 'bencher', 'hyperfine'];

export const REPORT_FORMATS = [...PAGE_FORMATS, ...JOB_FORMATS] as const;
export type ReportFormatName = (typeof REPORT_FORMATS)[number];

export const isPageFormat = (format: ReportFormatName): format is PageFormatName =>
  (PAGE_FORMATS as readonly string[]).includes(format);

/** A page for people and programs: people see its blocks, and --format json prints its data. */
export interface Report {
  readonly template: TemplateName;
  readonly title: string;
  readonly blocks: readonly Block[];
  /** Plain data; the names of figures include their units. */
  readonly data: Readonly<Record<string, unknown>>;
  /** All plots for which there is data; `blocks` contains the most informative ones. */
  readonly plots: readonly Plot[];
}
