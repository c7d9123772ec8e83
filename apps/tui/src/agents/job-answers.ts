import {
  machineText,
  ComparisonVerdict,
  JobState,
  Outcome,
  Verdict,
  type Acceptability,
  type Job,
  type JobResult,
  type Ranking,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import * as z from 'zod';
import { askedVariant, evaluationOf } from '../search/evaluation.ts';
import { bounded, findingText, gateText, tuneText } from '../search/feedback.ts';
import { inToolWords, leftOut, type ResourceLink } from './answers.ts';

const MAX_FINDING = 1500;
const MAX_FINDINGS = 3;
const MAX_GATES = 10;
/** Limits on the number and length of the lines in a search's table, because an answer has at most 8 kB. */
const MAX_TABLE_LINES = 20;
const MAX_TABLE_LINE = 200;

/** Fields of every answer about a job. */
export const jobState = {
  job: z.string(),
  state: z.enum(['queued', 'running', 'ended']),
  outcome: z.string().optional().describe('set once it has ended; PASSED, FAILED, COMPILE_FAILED, WRONG_RESULT …'),
  summary: z.string().optional(),
  ...leftOut,
};

type Answer = Record<string, unknown>;

export function stateOf({ name, state, outcome, summary }: Job): Answer {
  if (state !== JobState.ENDED) return { job: name, state: state === JobState.RUNNING ? 'running' : 'queued' };
  return { job: name, state: 'ended', outcome: Outcome[outcome], summary: bounded(summary, MAX_FINDING) };
}

/** The answer about a job that has ended. */
export function resultAnswer(job: Job, result: JobResult | undefined): Answer {
  const evaluation = evaluationOf({ job, result });
  const variant = askedVariant(result);
  const findings = (variant?.findings ?? [])
    .slice(0, MAX_FINDINGS)
    .map((finding) => bounded(inToolWords(findingText(finding)), MAX_FINDING));
  const { correct } = evaluation;
  const feedback = inToolWords(evaluation.text_feedback);
  return {
    ...stateOf(job),
    correct,
    stage: evaluation.stage,
    device: result?.provenance?.device?.name ?? '',
    simulated: result?.provenance?.device?.simulated ?? false,
    findings,
    // The feedback omits text that the findings already contain.
    feedback: bounded(findings.length > 0 && !correct ? lastLine(feedback) : feedback, MAX_FINDING),
    metrics: evaluation.metrics,
    ...(result?.ranking && rankingAnswer(result.ranking)),
    ...(result?.provenance && measuredOn(result.provenance)),
    ...(result?.acceptability && { acceptable: acceptableAnswer(result.acceptability) }),
    ...(result?.tune && {
      table: tuneText(result.tune)
        .slice(0, MAX_TABLE_LINES)
        .map((line) => bounded(line, MAX_TABLE_LINE)),
    }),
    gates_failed: (variant?.gates ?? [])
      .filter(({ verdict }) => verdict === Verdict.FAIL)
      .slice(0, MAX_GATES)
      .map(gateText),
  };
}

/** Names the node and pilot that measured a figure, because a gateway cannot confirm what a pilot reports. */
export const MEASURED_ON = z.string().optional().describe('node and pilot; absent unless the runner is a gateway');

export const measuredOn = (from: { hostName: string; schedulerJob?: string }): Answer =>
  from.schedulerJob === undefined ? {} : { measured_on: bounded(machineText(from), MAX_TABLE_LINE) };

export const rankingAnswer = ({ ranked, reasons }: Ranking): Answer => ({
  ranked,
  ...(!ranked && { not_ranked: reasons.slice(0, MAX_GATES).map((reason) => bounded(reason, MAX_TABLE_LINE)) }),
});

const acceptableAnswer = ({ possible, reason, replaces, over }: Acceptability): Answer => ({
  possible,
  reason: bounded(reason, MAX_FINDING),
  ...(replaces !== undefined && { replaces }),
  ...(possible && { over }),
});

/** The answer about a job that has ended and was requested as a comparison. */
export function comparisonAnswer(job: Job, result: JobResult | undefined): Answer {
  const comparison = askedVariant(result)?.comparison;
  return {
    ...stateOf(job),
    verdict: comparison ? ComparisonVerdict[comparison.verdict] : 'NOT_JUDGED',
    reason: bounded(
      comparison?.reason ?? 'the candidate did not come as far as the comparison: read its result',
      MAX_FINDING,
    ),
    ratios: (comparison?.shapes ?? []).flatMap(({ shape, time, simulated }) =>
      shape && time && !simulated
        ? [{ shape: formatShape(shape), ratio: time.ratio, low: time.low, high: time.high }]
        : [],
    ),
  };
}

/** Links to data that is too large for a result. */
export const linksOf = (job: string): ResourceLink[] =>
  [
    ['log', 'text/plain'],
    ['compiler', 'text/plain'],
    ['cases', 'text/plain'],
    ['profile', 'text/plain'],
    ['result', 'application/json'],
  ].map(([name, mimeType]) => ({ name: name!, uri: `flashcore://${job}/${name}`, mimeType: mimeType! }));

const lastLine = (text: string): string => text.trimEnd().split('\n').at(-1) ?? '';
