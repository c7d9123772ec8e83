/** What `fa-tui report --format` writes of ended jobs. */
import { GetJobResponseSchema, type GetJobResponse } from '@flashcore/shared/contract';
import { toJson } from '@bufbuild/protobuf';
import { junitOf } from '../record/junit.ts';
import { actionBenchmark, bencherMetrics, hyperfineResults } from './benchmark-files.ts';
import { figuresOf } from './figures.ts';
import { finalReport } from './final-report.ts';
import { annotations, problemsOf, sarif } from './problems.ts';
import type { ReportFormatName } from './report-formats.ts';

type Writer = (jobs: readonly GetJobResponse[], folder: string) => string;

const json = (value: unknown): string => `${JSON.stringify(value, null, 1)}\n`;

/** `folder`: where the kernel lies in the repository, for the places of problems. */
export const WRITERS: Readonly<Record<ReportFormatName, Writer>> = {
  final: finalReport,
  json: (jobs) => json(jobs.map((each) => toJson(GetJobResponseSchema, each))),
  junit: (jobs) =>
    junitOf(jobs.map(({ job }) => job?.label || job?.name).join(', '), {
      variants: jobs.flatMap(({ result }) => result?.variants ?? []),
    }),
  sarif: (jobs, folder) => json(sarif(problemsOf(jobs), folder)),
  github: (jobs, folder) =>
    annotations(problemsOf(jobs), folder)
      .map((line) => `${line}\n`)
      .join(''),
  'github-action-benchmark': (jobs) => json(actionBenchmark(figuresOf(jobs))),
  bencher: (jobs) => json(bencherMetrics(figuresOf(jobs))),
  hyperfine: (jobs) => json(hyperfineResults(figuresOf(jobs))),
};
