import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { RunnerClient } from '@flashcore/shared/client';
import { JobState, type GetJobResponse, type JobEvent } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import { figuresOf, isMeasured } from '../handover/figures.ts';
import { finalReport } from '../handover/final-report.ts';
import { kernelReport } from '../handover/kernel-report.ts';
import { DEFAULT_LIMIT, leftOutRemarks, readLabLog } from '../handover/lab-log.ts';
import { JOB_WRITERS, PAGE_WRITERS } from '../handover/writers.ts';
import {
  BENCHMARK_FORMATS,
  isPageFormat,
  type ReportFormatName,
  type TemplateName,
  type Report,
} from '../handover/report-formats.ts';
import { searchReport } from '../handover/search-page.ts';
import { FileSource, RunnerSource, type ResultSource, traceOf } from '../handover/sources.ts';
import { requireWritable } from '../named-files.ts';
import { plotSvg } from '../present/svg/plot-svg.ts';
import { summaryOf } from '../search/search-report.ts';
import { SearchStore } from '../search/search-store.ts';
import type { CommandContext } from './context.ts';
import { integer, type GlobalOptions } from './options.ts';
import { ExitCode, UsageError } from '../exit-code.ts';
import { resolveJobName } from '../session/job-name.ts';

export interface ReportCommandOptions extends GlobalOptions {
  readonly template: TemplateName;
  /** Default: markdown, or a text if a terminal shows it. */
  readonly format?: ReportFormatName;
  readonly output?: string;
  /** Path of the kernel's folder in the repository. */
  readonly folder?: string;
  /** Files and folders with the JSON of ended jobs, to read instead of a runner. */
  readonly from?: readonly string[];
  readonly since?: string;
  readonly kernel?: string;
  readonly limit?: string;
  /** Title for a pull request's comment. */
  readonly suite?: string;
  /** Folder for pictures of the plots. */
  readonly svg?: string;
}

/**
 * `fa-tui report`: writes results as pages for other people, or as files for other programs. `names` are jobs, a kernel
 * or a search, depending on the template.
 */
export async function report(
  names: readonly string[],
  options: ReportCommandOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const { template, output } = options;
  checkNames(names, options);
  requireWritable({ '--output': output });
  if (template === 'search') {
    writePage(searchPage(names[0] ?? '', options, context), options, context);
    return ExitCode.PASSED;
  }
  const settings = settingsOf(names, options);
  if (options.from !== undefined) {
    const source = new FileSource(options.from);
    const jobs = names.length === 0 ? source.jobs : names.map((name) => storedJob(source, name));
    return written({ source, jobs, settings }, options, context);
  }
  return context.withRunner(async ({ client }) => {
    const jobs = template === 'final' ? await endedJobs(names, client) : [];
    return written({ source: new RunnerSource(client), jobs, settings }, options, context);
  });
}

function checkNames(names: readonly string[], { template, format = 'markdown', from }: ReportCommandOptions): void {
  if (!isPageFormat(format) && template !== 'final')
    throw new UsageError(
      `--format ${format}: is a format for jobs; --template ${template} takes markdown, html or json`,
    );
  if (template === 'lab-log' && names.length > 0)
    throw new UsageError('report --template lab-log: takes no jobs; --since and --kernel say which');
  if ((template === 'kernel' || template === 'search') && names.length !== 1)
    throw new UsageError(`report --template ${template}: give the ${template}'s id, and one only`);
  if (template === 'final' && names.length === 0 && from === undefined)
    throw new UsageError('report: give jobs, or files of them with --from');
}

const settingsOf = (
  names: readonly string[],
  { template, kernel, since, limit }: ReportCommandOptions,
): PageSettings => ({
  kernelId: template === 'kernel' ? (names[0] ?? '') : (kernel ?? ''),
  since: sinceSeconds(since),
  most: integer('--limit', limit, 1, 10_000) ?? DEFAULT_LIMIT,
});

interface Reported {
  source: ResultSource;
  jobs: readonly GetJobResponse[];
  settings: PageSettings;
}

async function written(
  { source, jobs, settings }: Reported,
  options: ReportCommandOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const { template, format = 'markdown', folder = '', suite = 'flashcore', output } = options;
  if (!isPageFormat(format)) {
    write(JOB_WRITERS[format](jobs, { folder, suite }), output, context);
    if (BENCHMARK_FORMATS.includes(format)) noteLeftOut(jobs, context);
    if (format === 'github') writeStepSummary(jobs, context);
    return ExitCode.PASSED;
  }
  const made = await {
    final: () => Promise.resolve(finalReport(jobs)),
    'lab-log': () => readLabLog(source, settings),
    kernel: () => kernelReportOf(source, settings),
  }[template as Exclude<TemplateName, 'search'>]();
  writePage(made, options, context);
  return ExitCode.PASSED;
}

/** Warns about figures that are missing from the file. A program reads the file, but its author should know. */
function noteLeftOut(jobs: readonly GetJobResponse[], context: CommandContext): void {
  const figures = figuresOf(jobs);
  const left = figures.filter((figure) => !isMeasured(figure)).length;
  if (figures.length === 0) context.note('No figure is in it: nothing was measured in these jobs');
  else if (left > 0)
    context.note(
      `${left} of ${figures.length} figures are left out: of the emulator, whose times are not GPU times, or not valid`,
    );
}

/** GitHub drops a step's summary if it is larger than 1 MiB. */
const MOST_SUMMARY_BYTES = 1024 * 1024;

/** In a step of a GitHub workflow the final report also becomes the step's summary. */
function writeStepSummary(jobs: readonly GetJobResponse[], context: CommandContext): void {
  const file = context.surroundings.environment.GITHUB_STEP_SUMMARY;
  if (!file) return;
  const text = PAGE_WRITERS.markdown(finalReport(jobs));
  if (Buffer.byteLength(text) < MOST_SUMMARY_BYTES) appendFileSync(file, text);
  else context.note(`The step's summary was left out: it has ${Buffer.byteLength(text)} bytes, GitHub takes 1 MiB`);
}

/** Writes a page. With --svg, the plots are written to files too. */
function writePage(made: Report, { format, output, svg }: ReportCommandOptions, context: CommandContext): void {
  if (svg !== undefined) for (const file of writePlots(made, svg)) context.note(file);
  // Markdown's escapes are for programs: who reads the page here gets it as other commands print their results.
  if (format === undefined && output === undefined && context.surroundings.stdout.isTTY) context.show(made.blocks);
  else write(PAGE_WRITERS[format === undefined || !isPageFormat(format) ? 'markdown' : format](made), output, context);
}

function writePlots({ plots }: Report, folder: string): string[] {
  const pictures = plots.map((each) => ({ caption: each.caption ?? 'plot', text: plotSvg(each) }));
  const drawn = pictures.filter(({ text }) => text !== '');
  if (drawn.length === 0) throw new UsageError(`--svg ${folder}: there is nothing to draw in these results`);
  mkdirSync(folder, { recursive: true });
  return drawn.map(({ caption, text }, index) => {
    const file = path.join(folder, `${String(index + 1).padStart(2, '0')}-${fileName(caption)}.svg`);
    writeFileSync(file, `${text}\n`);
    return file;
  });
}

const MOST_NAME = 80;

/**
 * A file name with the letters, digits and hyphens of a caption. Other characters are dropped, because a caption
 * contains foreign text.
 */
const fileName = (caption: string): string =>
  caption
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, MOST_NAME);

/** The page of a search. The search is one of this user's, or stored in a folder. */
function searchPage(id: string, { from }: ReportCommandOptions, context: CommandContext): Report {
  const store =
    from === undefined
      ? SearchStore.open(context.surroundings.environment, id)
      : SearchStore.openFolder(path.join(from[0] ?? '', id));
  const trials = store.trials();
  if (trials.length === 0) throw new UsageError(`Search ${id} has no trial yet`);
  return searchReport(summaryOf(store.plan, trials));
}

async function endedJobs(names: readonly string[], client: RunnerClient): Promise<GetJobResponse[]> {
  const jobs = await Promise.all(
    names.map(async (text) => client.getJob({ name: await resolveJobName(client, text) })),
  );
  const running = jobs.find(({ job }) => job?.state !== JobState.ENDED);
  if (running) throw new UsageError(`${running.job?.name} has not ended: wait for it with fa-tui watch`);
  return jobs;
}

function storedJob({ jobs }: FileSource, name: string): GetJobResponse {
  const digits = name.replace(/^jobs\//, '');
  const [found, ...others] = jobs.filter(({ job }) => job?.name.startsWith(`jobs/${digits}`));
  if (!found || others.length > 0)
    throw new UsageError(
      `${name}: must be the beginning of one job in --from; it is of ${found ? others.length + 1 : 0}`,
    );
  return found;
}

/** `fa-tui trace <job>`: writes the job's events as trace-event JSON. */
export function traceJob(
  text: string,
  { output }: { readonly output?: string },
  context: CommandContext,
): Promise<ExitCode> {
  requireWritable({ '--output': output });
  return context.withRunner(async ({ client }) => {
    const name = await resolveJobName(client, text);
    const events: JobEvent[] = [];
    for await (const event of client.watch(name)) events.push(event);
    write(`${JSON.stringify(traceOf(events))}\n`, output, context);
    return ExitCode.PASSED;
  });
}

function write(text: string, file: string | undefined, context: CommandContext): void {
  if (file === undefined) context.surroundings.stdout.write(text);
  else writeFileSync(file, text);
}

const UNIT_SECONDS: Record<string, number> = { m: 60, h: 3600, d: 86_400, w: 7 * 86_400 };

/**
 * The time that `--since` gives, as seconds since 1970: a day or an instant (2026-11-21, 2026-11-21T10:30Z) or an age
 * (90m, 12h, 3d, 2w). 0 without the option. Errors: UsageError.
 */
export function sinceSeconds(text: string | undefined, now = Date.now()): number {
  if (text === undefined) return 0;
  const ago = /^(\d{1,5})([mhdw])$/.exec(text);
  if (ago) return now / 1000 - Number(ago[1]) * entryOf(UNIT_SECONDS, ago[2]!)!;
  const instant = /^\d{4}-\d\d-\d\d([T ][\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isFinite(instant))
    throw new UsageError(
      `--since ${text}: must be a day (2026-11-21), an instant (2026-11-21T10:30Z) or an age (12h, 3d)`,
    );
  return instant / 1000;
}

interface PageSettings {
  /** Empty to report on all kernels. */
  readonly kernelId: string;
  /** Seconds since 1970; 0 to report on all jobs. */
  readonly since: number;
  /** Limit on the jobs to read. */
  readonly most: number;
}

async function kernelReportOf(source: ResultSource, settings: PageSettings): Promise<Report> {
  const kernel = await source.kernel(settings.kernelId);
  const { jobs, leftOut } = await source.list(settings);
  const trail = await source.trail(settings.kernelId);
  const remarks = leftOutRemarks(leftOut, settings.most);
  return kernelReport({ kernelId: settings.kernelId, kernel, jobs, ...trail, remarks });
}
