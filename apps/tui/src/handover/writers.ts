/** Writers for `fa-tui report --format`: pages of a template, and files of ended jobs for other programs. */
import type { GetJobResponse } from '@flashcore/shared/contract';
import type { Block } from '../present/blocks.ts';
import { htmlPage } from '../present/html/html-painter.ts';
import { markdownOf } from '../present/plain/markdown-painter.ts';
import { couldNotRun, junitOfJobs } from '../record/junit.ts';
import { actionBenchmark, bencherMetrics, hyperfineResults } from './benchmark-files.ts';
import { figuresOf } from './figures.ts';
import { evalResults, fastP } from './kernelbench-eval.ts';
import { annotations, problemsOf, sarif } from './problems.ts';
import { pullRequestComment } from './pull-request.ts';
import type { JobFormatName, PageFormatName, Report } from './report-formats.ts';

interface JobFileSettings {
  /** The kernel's folder in the repository, for the places of problems. */
  readonly folder: string;
  /** Title of a pull request's comment. */
  readonly suite: string;
}

type Writer = (jobs: readonly GetJobResponse[], settings: JobFileSettings) => string;

const json = (value: unknown): string => `${JSON.stringify(value, null, 1)}\n`;

export const JOB_WRITERS: Readonly<Record<JobFormatName, Writer>> = {
  junit: (jobs) => junitOfJobs(jobs.map(junitJob)),
  sarif: (jobs, { folder }) => json(sarif(problemsOf(jobs), folder)),
  github: (jobs, { folder }) =>
    annotations(problemsOf(jobs), folder)
      .map((line) => `${line}\n`)
      .join(''),
  'pull-request': (jobs, { suite }) => pullRequestComment(jobs, suite),
  'github-action-benchmark': (jobs) => json(actionBenchmark(figuresOf(jobs))),
  bencher: (jobs) => json(bencherMetrics(figuresOf(jobs))),
  hyperfine: (jobs) => json(hyperfineResults(figuresOf(jobs))),
  'eval-results': (jobs) => json(evalResults(jobs)),
  'fast-p': (jobs) => json(fastP(jobs)),
};

const junitJob = ({ job, result }: GetJobResponse) => ({
  label: job?.label || job?.name || '',
  variants: result?.variants ?? [],
  ...(couldNotRun(job?.outcome) && { error: job?.summary || 'the runner could not run it' }),
});

/**
 * Removes plots, because Markdown cannot contain them; --svg writes them as files. A chapter that contains only plots
 * is removed too.
 */
const withoutPlots = (blocks: readonly Block[]): Block[] =>
  blocks.filter((block, index) => {
    if (block.kind === 'plot') return false;
    const next = blocks[index + 1];
    const isEmpty = block.kind === 'heading' && next?.kind === 'plot' && blocks.slice(index + 1).every(isPlot);
    return !isEmpty;
  });

const isPlot = ({ kind }: Block): boolean => kind === 'plot';

export const PAGE_WRITERS: Readonly<Record<PageFormatName, (report: Report) => string>> = {
  markdown: ({ blocks }) => markdownOf(withoutPlots(blocks)),
  html: ({ title, blocks }) => htmlPage(title, blocks),
  json: ({ template, title, data }) => json({ version: 1, template, title, ...data }),
};
