/**
 * The lab log: how the attempts ended, with the failures first. Then come the attempts in order, each with its reason,
 * changes, figures before and after, gates, decision and cost. The next steps are at the end. An attempt's hypothesis
 * is the notes about its job and its proposer's thoughts.
 */
import { DecisionKind, Outcome, type Decision, type GetJobResponse } from '@flashcore/shared/contract';
import { chapter, fact, facts, heading, notice, tableOf, type Block, type Column } from '../present/blocks.ts';
import { formatInterval, formatMicroseconds, formatSeconds, counted, instantOf } from '../present/numbers.ts';
import { comparisonPlots, jobPlots, subjectOf } from '../present/plots/job-plots.ts';
import { dtypeWord, outcomeWord, shortName, summaryText } from '../present/words.ts';
import { changesOf, type Changes } from './changes.ts';
import { stepsOf, type Step } from './before-after.ts';
import {
  costText,
  errorText,
  gatesText,
  largestError,
  correctText,
  tallyOf,
  totalCost,
  type GateTally,
} from './job-facts.ts';
import type { Report } from './report-formats.ts';
import type { ResultSource } from './sources.ts';

export const DEFAULT_LIMIT = 200;

interface LabLogSettings {
  /** Empty for all kernels. */
  readonly kernelId?: string;
  /** Seconds since 1970; 0 for all jobs. */
  readonly since?: number;
  /** Limit on the jobs to read. */
  readonly most?: number;
}

/** Reads the jobs and decisions, and makes the lab log of them. */
export async function readLabLog(
  source: ResultSource,
  { kernelId = '', since = 0, most = DEFAULT_LIMIT }: LabLogSettings,
): Promise<Report> {
  const { jobs, leftOut } = await source.list({ kernelId, since, most });
  const { decisions } = await source.trail(kernelId);
  return labLog({ jobs, decisions, remarks: leftOutRemarks(leftOut, most) });
}

export const leftOutRemarks = (leftOut: boolean, most: number): string[] =>
  leftOut ? [`Only the newest ${most} jobs: --limit reads more, --since says from when on`] : [];

interface LabLogInput {
  /** Ended jobs, oldest first. */
  readonly jobs: readonly GetJobResponse[];
  readonly decisions: readonly Decision[];
  /** Remarks about omitted data, such as older jobs; empty if nothing was left out. */
  readonly remarks: readonly string[];
}

export function labLog({ jobs, decisions, remarks }: LabLogInput): Report {
  const title = 'Lab log';
  const entries = jobs.map((each, index) => entryOf(each, jobs.slice(0, index), decisions));
  const advised = nextSteps(jobs);
  const none = [chapter(title, 1), notice('No job to report: builds that passed are left out.')];
  return {
    template: 'lab-log',
    title,
    blocks:
      entries.length === 0
        ? none
        : [
            chapter(title, 1),
            notice(`${counted(entries.length, 'job')}: ${outcomesText(entries)}; ${totalCost(jobs)}.`),
            ...remarks.map((text) => notice(text)),
            ...failureBlocks(entries),
            chapter('What was tried'),
            notice('Oldest first.'),
            ...entries.flatMap(entryBlocks),
            chapter('Next steps'),
            ...nextBlocks(advised),
          ],
    data: {
      entries: entries.map(({ response: _, ...entry }) => entry),
      next_steps: advised,
      remarks,
    },
    plots: jobs.flatMap(jobPlots),
  };
}

interface Entry {
  readonly response: GetJobResponse;
  readonly job: string;
  readonly kernel: string;
  readonly started: string;
  readonly device: string;
  readonly protocol: string;
  readonly simulated: boolean;
  readonly hypotheses: readonly Said[];
  readonly decisions: readonly (Said & { readonly what: string })[];
  readonly outcome: string;
  readonly summary: string;
  readonly changes: Changes | null;
  readonly steps: readonly Step[];
  readonly parity: string;
  readonly largest_error: number | null;
  readonly gates: GateTally;
  readonly findings: readonly string[];
  readonly device_seconds: number;
  readonly cost_usd: number | null;
  readonly cost_missing: string | null;
}

interface Said {
  readonly text: string;
  readonly by: string;
  readonly at: string;
}

const DECISION_WORDS: Partial<Record<DecisionKind, string>> = {
  [DecisionKind.ACCEPTED]: 'accepted',
  [DecisionKind.REJECTED]: 'rejected',
  [DecisionKind.UNDONE]: 'taken back',
};

function entryOf(response: GetJobResponse, before: readonly GetJobResponse[], all: readonly Decision[]): Entry {
  const { job, result } = response;
  const variant = result?.variants.find(({ fallback }) => !fallback);
  const own = all.filter((decision) => decision.job === job?.name).toSorted((a, b) => Number(a.number - b.number));
  const device = result?.provenance?.device;
  return {
    response,
    job: job?.name ?? '',
    kernel: job?.label || job?.kernelId || '',
    started: instantOf(job?.startTime ?? job?.createTime),
    device: device?.name ?? job?.deviceId ?? '',
    protocol: result?.provenance?.protocol ?? '',
    simulated: device?.simulated ?? false,
    hypotheses: [
      ...own.filter(({ kind }) => kind === DecisionKind.NOTED).map(saidOf),
      ...(job?.labels['thought'] ? [{ text: job.labels['thought'], by: 'the proposer', at: '' }] : []),
    ],
    decisions: own.flatMap((decision) => {
      const what = DECISION_WORDS[decision.kind];
      return what === undefined ? [] : [{ ...saidOf(decision), what }];
    }),
    outcome: outcomeWord(job),
    summary: job?.summary ?? '',
    changes: variant ? changesOf(response, variant, before) : null,
    steps: variant ? stepsOf(response, variant, before) : [],
    parity: variant ? correctText(variant) : 'not checked',
    largest_error: (variant && largestError(variant)) ?? null,
    gates: tallyOf(variant?.gates ?? []),
    findings: (variant?.findings ?? []).map(({ message, remedy }) => `${message} ${remedy}`.trim()),
    device_seconds: result?.deviceSeconds ?? 0,
    cost_usd: result?.costUsd ?? null,
    cost_missing: result?.costMissing ?? null,
  };
}

const saidOf = ({ note, client, time }: Decision): Said => ({ text: note, by: client, at: instantOf(time) });

/** Text such as "29 passed, 1 race". */
function outcomesText(entries: readonly Entry[]): string {
  const counts = new Map<string, number>();
  for (const { outcome } of entries) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  return [...counts].map(([word, count]) => `${count} ${word}`).join(', ');
}

/** The jobs that did not pass, newest first. */
function failureBlocks(entries: readonly Entry[]): Block[] {
  const failed = entries.filter(({ response }) => response.job?.outcome !== Outcome.PASSED).toReversed();
  return failed.length === 0 ? [] : [chapter('What did not pass'), tableOf(FAILURE_COLUMNS, failed)];
}

const FAILURE_COLUMNS: readonly Column<Entry>[] = [
  { title: 'job', cell: ({ job }) => shortName(job) },
  { title: 'started', cell: ({ started }) => started },
  { title: 'kernel', cell: ({ kernel }) => kernel },
  { title: 'outcome', cell: ({ outcome }) => outcome },
  { title: 'because', cell: ({ response }) => (response.job ? summaryText(response.job) : '') },
];

function entryBlocks(entry: Entry): Block[] {
  const { response, job, kernel, started, device, simulated, protocol, outcome } = entry;
  const { result } = response;
  const variant = result?.variants.find(({ fallback }) => !fallback);
  const dtype = dtypeWord(result?.provenance?.dtype ?? '').trim();
  const place = [device, dtype, protocol, simulated ? 'simulated: no GPU times' : ''].filter(Boolean).join(', ');
  return [
    heading(`${started} ${kernel}`, `job ${shortName(job)}`),
    facts(
      fact('on', place),
      ...entry.hypotheses.map(({ text, by }) => fact('hypothesis', by === '' ? text : `${text} (${by})`)),
      ...changeFacts(entry.changes),
      fact('outcome', response.job?.summary ? `${outcome}: ${summaryText(response.job)}` : outcome),
      ...(variant ? [fact('parity', `${correctText(variant)}, largest error ${errorText(variant)}`)] : []),
      ...(variant && variant.gates.length > 0
        ? [fact(result?.plan ? `gates (${result.plan.name})` : 'gates', gatesText(variant.gates))]
        : []),
      ...entry.findings.map((text) => fact('finding', text)),
      ...entry.decisions.map(({ what, text, by, at }) =>
        fact('decision', `${what} by ${by}, ${at}${text === '' ? '' : `: ${text}`}`),
      ),
      ...(result ? [fact('cost', `${formatSeconds(result.deviceSeconds)} of the device, ${costText(result)}`)] : []),
    ),
    ...(entry.steps.length === 0 ? [] : [tableOf(STEP_COLUMNS, entry.steps)]),
    ...(variant?.comparison?.shapes ?? []).flatMap((shape) =>
      comparisonPlots(shape, subjectOf(response.job!, variant!, result?.provenance)),
    ),
  ];
}

const changeFacts = (changes: Changes | null) =>
  changes === null
    ? []
    : [
        fact('against', changes.against),
        ...changes.parameters.map(({ name, before, after }) => fact(name, `${before ?? '-'} → ${after ?? '-'}`)),
        ...changes.sources.map(({ path, added, removed, hunks }) =>
          fact(path, `+${added} -${removed} lines in ${counted(hunks, 'hunk')}`),
        ),
        fact('changed', changes.remark),
      ];

const STEP_COLUMNS: readonly Column<Step>[] = [
  { title: 'shape', cell: ({ shape }) => shape },
  { title: 'mode', cell: ({ mode }) => mode },
  {
    title: 'before',
    align: 'right',
    cell: ({ before_us: us }) => (us === null ? '-' : formatMicroseconds(us)),
  },
  { title: 'of', cell: ({ before_of: of }) => of },
  { title: 'after', align: 'right', cell: ({ after_us: us }) => formatMicroseconds(us) },
  {
    title: 'speedup',
    align: 'right',
    cell: ({ ratio }) => (ratio === null ? 'not compared' : formatInterval(ratio)),
  },
  { title: 'verdict', cell: ({ verdict }) => verdict },
  { title: 'job', cell: ({ job, simulated }) => `${shortName(job)}${simulated ? ' (simulated)' : ''}` },
];

const nextBlocks = (advised: readonly Advised[]): Block[] =>
  advised.length === 0
    ? [notice('No job of these was profiled: fa-tui profile <kernel> says what bounds it, where counters can be read')]
    : [tableOf(ADVICE_COLUMNS, sameTogether(advised))];

/** A piece of advice, and the kernels that got it. */
interface SharedAdvice {
  readonly text: string;
  readonly of: readonly Advised[];
}

const sameTogether = (advised: readonly Advised[]): SharedAdvice[] =>
  [...new Set(advised.map(({ text }) => text))].map((text) => ({
    text,
    of: advised.filter((each) => each.text === text),
  }));

const ADVICE_COLUMNS: readonly Column<SharedAdvice>[] = [
  { title: 'try', cell: ({ text }) => text },
  { title: 'for', cell: ({ of }) => of.map(({ kernel, job }) => `${kernel} (${shortName(job)})`).join(', ') },
  { title: 'because', cell: ({ of }) => [...new Set(of.map(({ evidence }) => evidence))].join('; ') },
];

interface Advised {
  readonly kernel: string;
  readonly text: string;
  readonly evidence: string;
  readonly job: string;
}

/** Next steps that profiles suggest. */
export const adviceOf = ({ job, result }: GetJobResponse): Advised[] =>
  (result?.variants ?? [])
    .filter(({ fallback }) => !fallback)
    .flatMap(({ profile }) => profile?.advice ?? [])
    .map(({ text, evidence }) => ({ kernel: job?.label || job?.kernelId || '', text, evidence, job: job?.name ?? '' }));

/** The advice from each kernel's latest job with advice. `jobs` begins with the oldest. */
export function nextSteps(jobs: readonly GetJobResponse[]): Advised[] {
  const latest = new Map<string, Advised[]>();
  for (const each of jobs) {
    const advice = adviceOf(each);
    if (advice.length > 0) latest.set(each.job?.kernelId ?? '', advice);
  }
  return [...latest.values()].flat();
}
