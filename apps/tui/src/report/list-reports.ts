import { FindingKind, JobState, type ExperimentSummary, type Job, type Kernel } from '@flashcore/shared/contract';
import type { ReportFormat } from './format.ts';
import { kindText } from './job-report.ts';
import { shortInstant, time } from './numbers.ts';
import { table, type Cell } from './table.ts';
import { labelled, paragraph, printable } from './text.ts';
import { outcomeStyle, outcomeText } from './verdicts.ts';

const SHORT_NAME_LENGTH = 8;

/** First digits of a job's UUID: every command takes them while no other job begins so. */
export const shortJobName = (name: string): string => name.replace(/^jobs\//, '').slice(0, SHORT_NAME_LENGTH);

/** The ladder: id and title of every kernel; in full also what it teaches, its parameters and limits. */
export function kernelsReport(kernels: readonly Kernel[], format: ReportFormat): string[] {
  if (kernels.length === 0) return ['no kernels'];
  return kernels.flatMap((kernel) => kernelLines(kernel, format));
}

function kernelLines(kernel: Kernel, format: ReportFormat): string[] {
  const id = format.style('bold', printable(kernel.kernelId));
  if (kernel.manifestError) return [id, ...labelled('unusable', kernel.manifestError, format)];
  const items: [string, string][] = [
    ['lesson', kernel.lesson],
    ['after', kernel.after ?? ''],
    [
      'needs',
      `${kernel.minArch}${kernel.emulated ? '' : ', no emulator'}${kernel.limits.map((limit) => `; ${limit.require}`).join('')}`,
    ],
    [
      'set',
      kernel.parameters
        .map((parameter) => `${parameter.name}=${parameter.values.join('|')} (${parameter.defaultValue})`)
        .join(', '),
    ],
    ['configs', kernel.configs.join(', ')],
    ['must get', kernel.expectedFinding === FindingKind.UNSPECIFIED ? '' : (FindingKind[kernel.expectedFinding] ?? '')],
  ];
  return [
    `${id}  ${printable(kernel.title)}`,
    ...items.flatMap(([label, text]) => (text ? labelled(label, text, format) : [])),
  ];
}

/** Jobs, newest first, with the beginning of their names. `kernel`: the only one that was asked for. */
export function jobsReport(jobs: readonly Job[], format: ReportFormat, kernel = ''): string[] {
  if (jobs.length === 0) return [kernel === '' ? 'no jobs' : `no job of ${printable(kernel)}`];
  // Of a runner that tells its clients apart.
  const owned = jobs.some(({ owner }) => owner !== undefined && owner !== 'local');
  const columns = [
    { title: 'job' },
    { title: 'created' },
    ...(owned ? [{ title: 'owner' }] : []),
    { title: 'kind' },
    { title: 'state' },
    { title: 'kernel', shrinks: true },
  ];
  return table(
    columns,
    jobs.map((job) => [
      shortJobName(job.name),
      shortInstant(job.createTime),
      ...(owned ? [job.owner ?? '-'] : []),
      kindText(job.kind),
      stateCell(job),
      job.label || job.kernelId,
    ]),
    format,
  );
}

function stateCell(job: Job): Cell {
  if (job.state === JobState.ENDED) return { text: outcomeText(job.outcome), style: outcomeStyle(job.outcome) };
  if (job.state === JobState.QUEUED) return { text: `queued, ${job.queuePosition} before`, style: 'dim' };
  return { text: 'running', style: 'cyan' };
}

/** Ended experiments, newest first. `kernel`: the only one that was asked for. */
export function historyReport(experiments: readonly ExperimentSummary[], format: ReportFormat, kernel = ''): string[] {
  if (experiments.length === 0)
    return [kernel === '' ? 'no experiment has ended yet' : `no experiment of ${printable(kernel)} has ended yet`];
  const right = 'right' as const;
  const shown = {
    champion: experiments.some(({ champion }) => champion !== undefined),
    cost: experiments.some(({ costUsd }) => costUsd !== undefined),
  };
  const columns = [
    { title: 'job' },
    { title: 'ended' },
    { title: 'outcome' },
    { title: 'cases', align: right },
    { title: 'hot p50', align: right },
    ...(shown.champion ? [{ title: 'vs champion', align: right }] : []),
    ...(shown.cost ? [{ title: 'USD', align: right }] : []),
    { title: '+/-/?', align: right },
    { title: 'kernel', shrinks: true },
  ];
  const rows = experiments.map((experiment) => historyRow(experiment, shown));
  const notes = [
    experiments.some((experiment) => experiment.simulated) ? '~ emulator time, not a GPU time' : '',
    'hot: launches back to back, first shape',
    shown.champion ? 'vs champion: least ratio to the champion of the same job, above 1 faster' : '',
    '+/-/?: gates passed, failed, not measured',
  ].filter(Boolean);
  return [...table(columns, rows, format), ...paragraph(notes.join('; '), format, 2, 'dim')];
}

function historyRow(experiment: ExperimentSummary, shown: { champion: boolean; cost: boolean }): Cell[] {
  const { job } = experiment;
  return [
    job ? shortJobName(job.name) : '-',
    shortInstant(job?.endTime),
    job ? { text: outcomeText(job.outcome), style: outcomeStyle(job.outcome) } : '-',
    `${experiment.passedCases}/${experiment.cases}`,
    experiment.p50Us === undefined ? '-' : `${experiment.simulated ? '~' : ''}${time(experiment.p50Us)}`,
    ...(shown.champion ? [experiment.speedupOverChampion?.toFixed(3) ?? '-'] : []),
    ...(shown.cost ? [experiment.costUsd?.toFixed(4) ?? '-'] : []),
    `${experiment.gatesPassed}/${experiment.gatesFailed}/${experiment.gatesNotMeasured}`,
    job?.label || job?.kernelId || '-',
  ];
}
