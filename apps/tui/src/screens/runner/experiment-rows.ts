/** The results of an ended experiment in a few rows, for previews of jobs and kernels. */
import { timestampMs } from '@bufbuild/protobuf/wkt';
import {
  JobState,
  machineText,
  isParity,
  parityShort,
  type ExperimentSummary,
  type Job,
} from '@flashcore/shared/contract';
import { flowRows, labelled, run, type Row } from '../../present/cells/row.ts';
import { formatMicroseconds, formatSeconds } from '../../present/numbers.ts';
import { gatesInFull, largestErrorText } from '../../present/sections/lists.ts';
import { rankingText } from '../../present/sections/plan.ts';
import { MODE_WORDS, caseText, dtypeWord, summaryText } from '../../present/words.ts';
import { hasDuration } from '../../state/selectors.ts';

/** Medians by shape and mode, such as "2x8x512x64 hot 12.1 us  cold 13.4 us". */
export const timingRows = ({ timings, dtype, simulated }: ExperimentSummary, width: number): Row[] =>
  flowRows(
    timings.map(({ shape, mode, p50Us }): Row => [
      run(`${caseText(shape)} ${dtypeWord(dtype)}${MODE_WORDS[mode]} `, 'dim'),
      run(`${formatMicroseconds(p50Us)}${simulated ? ' sim' : ''}`),
    ]),
    width,
  );

/** The time that a job has run, or the number of jobs before it; "-" if nobody knows. */
export function tookText(job: Job, now: number): string {
  const { startTime, endTime, state, queuePosition } = job;
  if (state === JobState.QUEUED) return `${queuePosition} ahead`;
  return startTime === undefined || !hasDuration(job)
    ? '-'
    : formatSeconds(((endTime === undefined ? now : timestampMs(endTime)) - timestampMs(startTime)) / 1000);
}

/** A job's summary above `experimentRows`, which also give the reasons why it is not ranked. */
export const summaryBeside = (job: Job, experiment: ExperimentSummary | undefined): string =>
  experiment?.ranking === undefined ? summaryText(job) : summaryText(job).replace(/; not ranked: [^]*$/, '');

/** Correctness, registers and gates, with the medians below. Empty for a job that was not an experiment. */
export function experimentRows(experiment: ExperimentSummary | undefined, width: number): Row[] {
  if (experiment === undefined) return [];
  const { registersPerThread, ranking, schedulerJob } = experiment;
  const largestError = largestErrorText(experiment);
  return [
    ...flowRows(
      [
        labelled('cases', parityShort(experiment), isParity(experiment) ? undefined : 'bad'),
        ...(largestError === '-' ? [] : [labelled('max err', largestError)]),
        ...(registersPerThread === undefined ? [] : [labelled('registers/thread', String(registersPerThread))]),
        ...(gatesInFull(experiment) === '-' ? [] : [labelled('hard gates', gatesInFull(experiment))]),
        ...(ranking === undefined || ranking.ranked ? [] : [labelled('ranked', rankingText(ranking), 'warn')]),
        ...(schedulerJob === undefined ? [] : [labelled('measured on', machineText(experiment))]),
      ],
      width,
    ),
    ...timingRows(experiment, width),
  ];
}
