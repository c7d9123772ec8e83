/** The pages of `fa-tui report --template`, made from a source of results. */
import type { ResultSource } from './sources.ts';
import { kernelReport } from './kernel-report.ts';
import { labLog } from './lab-log.ts';
import type { Report } from './report.ts';

export interface PageSettings {
  /** Empty for all kernels. */
  readonly kernelId: string;
  /** Seconds since 1970; 0 for all jobs. */
  readonly since: number;
  /** Maximum number of jobs to read. */
  readonly most: number;
}

export async function labLogOf(source: ResultSource, settings: PageSettings): Promise<Report> {
  const { jobs, leftOut } = await source.list(settings);
  const { decisions } = await source.trail(settings.kernelId);
  return labLog({ jobs, decisions, remarks: leftOutRemarks(leftOut, settings.most) });
}

export async function kernelReportOf(source: ResultSource, settings: PageSettings): Promise<Report> {
  const kernel = await source.kernel(settings.kernelId);
  const { jobs, leftOut } = await source.list(settings);
  const trail = await source.trail(settings.kernelId);
  const remarks = leftOutRemarks(leftOut, settings.most);
  return kernelReport({ kernelId: settings.kernelId, kernel, jobs, ...trail, remarks });
}

const leftOutRemarks = (leftOut: boolean, most: number): string[] =>
  leftOut ? [`Only the newest ${most} jobs: --limit reads more, --since says from when on`] : [];
