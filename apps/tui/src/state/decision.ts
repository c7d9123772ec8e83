/** The decisions that an experiment allows: accept its build as champion, reject it, or undo the last decision. */
import {
  DecisionKind,
  JobKind,
  JobState,
  Outcome,
  Verdict,
  type Acceptability,
  type Caller,
  type Champion,
  type Decision,
  type ExperimentSummary,
  type GateResult,
  type Job,
} from '@flashcore/shared/contract';
import { acceptedNotes, formatShape, notesSaySomething, recordedDtype } from '@flashcore/shared/kernels';
import { DECISION_WORDS } from '../present/sections/decisions.ts';
import { KIND_WORDS, outcomeWord, shortName } from '../present/words.ts';
import type { JobView } from './job-view.ts';
import type { ListedKernel } from './listed-kernel.ts';

export const CHOICES = ['accept', 'reject', 'undo'] as const;
export type Choice = (typeof CHOICES)[number];

/** The part of the state about champions, decisions and the caller. */
interface DecisionFacts {
  readonly caller?: Caller | undefined;
  readonly champions: readonly Champion[];
  /** The audit trail. */
  readonly decisions: readonly Decision[];
  /** Their notes are handed in with an acceptance. */
  readonly kernels: readonly ListedKernel[];
}

/** The latest accepting or rejecting decision about a job that was not undone. */
export function standingDecision({ decisions }: Pick<DecisionFacts, 'decisions'>, job: string): Decision | undefined {
  const own = decisions.filter((decision) => decision.job === job);
  const undone = new Set(own.map(({ undoes }) => undoes));
  return own
    .filter(({ kind }) => kind === DecisionKind.ACCEPTED || kind === DecisionKind.REJECTED)
    .filter(({ number }) => !undone.has(number))
    .toSorted((a, b) => Number(b.number - a.number))[0];
}

/**
 * Why a job's documentation gates pass although NOTES.md was empty when the job ran: an acceptance handed the notes
 * in, or NOTES.md has been filled in since. Undefined if the notes are still missing.
 */
export function notesNow(
  state: Pick<DecisionFacts, 'decisions' | 'kernels'>,
  job: Pick<Job, 'name' | 'kernelId' | 'codeDigest'>,
): string | undefined {
  if (standingDecision(state, job.name)?.kind === DecisionKind.ACCEPTED) return 'handed in with the acceptance';
  return notesToHandIn(state.kernels, job) === '' ? undefined : 'filled in by now, handed in on accepting';
}

/** An experiment's counts with the documentation gates that pass by now, so that lists count as view 5 does. */
export function withNotesNow(
  state: Pick<DecisionFacts, 'decisions' | 'kernels'>,
  experiment: ExperimentSummary,
): ExperimentSummary {
  const { job, hardGatesPassed, hardGatesToDo } = experiment;
  if (job === undefined || hardGatesToDo === 0 || notesNow(state, job) === undefined) return experiment;
  return { ...experiment, hardGatesPassed: hardGatesPassed + hardGatesToDo, hardGatesToDo: 0 };
}

/** Lets the documentation gates pass, with a reason from notesNow(). */
export const withNotes = (gates: readonly GateResult[], detail: string): readonly GateResult[] =>
  gates.map((gate) => (isToDo(gate) ? { ...gate, verdict: Verdict.PASS, value: gate.target, detail } : gate));

const NO = 'no ';
const YET = ' yet; an accepted result becomes one';
const WHEN_IT_RAN = ' when this job ran';

/** "there was no champion of … when this job ran" for a detail that says that there is none yet. */
function withoutYet(detail: string): string {
  if (!detail.startsWith(NO) || !detail.endsWith(YET) || !detail.includes('champion of ')) return detail;
  return `there was ${detail.slice(0, -YET.length)}${WHEN_IT_RAN}`;
}

/** The detail without the advice that follows "… when this job ran: ". */
function withoutAdvice(detail: string): string {
  const end = detail.indexOf(`${WHEN_IT_RAN}: `);
  return end < 0 ? detail : detail.slice(0, end + WHEN_IT_RAN.length);
}

/** Gates' details as they are true by now: a champion may exist, and the code that ran may be in no known folder. */
export function withDetailsNow(
  state: Pick<DecisionFacts, 'champions' | 'decisions' | 'kernels'>,
  job: Pick<JobView, 'name' | 'kernelId' | 'codeDigest'>,
  gates: readonly GateResult[],
): readonly GateResult[] {
  const hasChampion =
    standingDecision(state, job.name)?.kind === DecisionKind.ACCEPTED ||
    state.champions.some(({ kernelId }) => kernelId === job.kernelId);
  const isGone = state.kernels.length > 0 && notesOf(state.kernels, job).length === 0;
  const detailNow = (gate: GateResult): string => {
    if (hasChampion) return withoutYet(gate.detail);
    // Notes can't be handed in for code that is gone, so the advice to fill them in is wrong.
    return isGone && isToDo(gate) ? withoutAdvice(gate.detail) : gate.detail;
  };
  const details = gates.map(detailNow);
  return details.every((detail, index) => detail === gates[index]?.detail)
    ? gates
    : gates.map((gate, index) => ({ ...gate, detail: details[index] ?? gate.detail }));
}

export const isToDo = ({ level, verdict }: GateResult): boolean => level === 'hard' && verdict === Verdict.NOT_JUDGED;

/**
 * The decision about a job, with its author and reason, such as "accepted by ada: wider tiles"; empty if nobody wrote
 * a note.
 */
export function noteText(state: Pick<DecisionFacts, 'decisions'>, job: string): string {
  const decision = standingDecision(state, job);
  if (decision === undefined || decision.note === '') return '';
  return `${DECISION_WORDS[decision.kind]} by ${decision.client}: ${decision.note.replaceAll('\n', ' ')}`;
}

/**
 * The reason why a decision can't be made; undefined if it can. The runner may still refuse, because only it knows who
 * owns the job.
 */
export function refusalOf(state: DecisionFacts, job: JobView, choice: Choice): string | undefined {
  const { caller } = state;
  if (caller?.role === 'viewer')
    return `${caller.name} is viewer: ask the runner's owner for the role submitter or admin`;
  if (job.state !== JobState.ENDED) return 'it has not ended';
  const standing = standingDecision(state, job.name);
  switch (choice) {
    case 'accept':
      return championEverywhere(state, job)
        ? 'it is the champion already; u undoes that'
        : (acceptRefusal(state, job) ?? staleRefusal(state, job));
    case 'reject':
      return standing?.kind === DecisionKind.REJECTED ? 'it is rejected already; u undoes that' : undefined;
    case 'undo':
      return standing === undefined ? 'it was neither accepted nor rejected, or that was undone already' : undefined;
  }
}

/** True if the job is champion on all its shapes. A champion that was replaced on some shapes may be accepted again. */
const championEverywhere = (state: DecisionFacts, job: JobView): boolean =>
  state.champions.some((champion) => champion.job === job.name) && replacedBy(state, job).length === 0;

function acceptRefusal(state: DecisionFacts, job: JobView): string | undefined {
  const { kind, result, outcome } = job;
  if (kind !== JobKind.EXPERIMENT)
    return `a ${KIND_WORDS[kind]} job is judged by no plan: 7, then Enter, runs the experiment`;
  if (result?.acceptability === undefined)
    return outcome === Outcome.PASSED
      ? 'its runner did not decide whether it may be accepted: 7, then Enter, runs it again'
      : `it did not pass (${outcomeWord(job)}): 7, then Enter, runs it again`;
  const { possible, notesWanted, reason } = result.acceptability;
  if (notesWanted) return notesRefusal(state, job);
  if (!possible) return NAMES_NOTES.test(reason) ? `${reason}; o opens NOTES.md` : reason;
  return result.ranking?.ranked ? undefined : 'it ran before ranked runs existed: 7, then Enter, runs it again';
}

/** Notes of kernels with the code that the job ran. Other notes may be about other code. */
const notesOf = (
  kernels: readonly Pick<ListedKernel, 'kernelId' | 'codeDigest' | 'notes'>[],
  { kernelId, codeDigest }: Pick<JobView, 'kernelId' | 'codeDigest'>,
): string[] =>
  kernels
    .filter((kernel) => kernel.kernelId === kernelId && codeDigest !== '' && kernel.codeDigest === codeDigest)
    .map(({ notes }) => acceptedNotes(notes));

/** The text of NOTES.md to hand in with an acceptance; empty if it says nothing. */
export const notesToHandIn = (...args: Parameters<typeof notesOf>): string =>
  notesOf(...args).find(notesSaySomething) ?? '';

/** Why a result that lacks only notes cannot be accepted; undefined once NOTES.md says something. */
function notesRefusal({ kernels }: DecisionFacts, job: JobView): string | undefined {
  if (notesOf(kernels, job).length === 0)
    return 'NOTES.md was not filled in when it ran, and no known folder has the code that ran: 7, then Enter, runs it again';
  return notesToHandIn(kernels, job) === ''
    ? 'NOTES.md says nothing yet: o opens it. Once it says what the kernel changes and why, a accepts the result without another run'
    : undefined;
}

const NAMES_NOTES = /\bNOTES\.md was\b|\bNOTES\.md were\b/;

/**
 * The refusal if the champion has changed: the user saw only the difference to the champion that the job was compared
 * with, so no other champion may be replaced.
 */
function staleRefusal(state: DecisionFacts, job: JobView): string | undefined {
  const over = job.result?.acceptability?.over ?? '';
  const other = replacedBy(state, job).find((champion) => champion.job !== over);
  if (other)
    return `the champion is ${other.label} (${shortName(other.job)}) by now, which it was not compared with: 7, then Enter, runs it again`;
  const wasAccepted = state.decisions.some(({ job: of, kind }) => of === over && kind === DecisionKind.ACCEPTED);
  const isWithdrawn = wasAccepted && standingDecision(state, over)?.kind !== DecisionKind.ACCEPTED;
  return isWithdrawn ? 'the champion that it was compared with was withdrawn: r runs it again' : undefined;
}

/** Says whether a job can be accepted now, with the reason; undefined once a decision was made. */
export function openAcceptability(
  state: DecisionFacts,
  job: JobView | undefined,
): Pick<Acceptability, 'possible' | 'reason' | 'replaces'> | undefined {
  const acceptability = job?.result?.acceptability;
  if (job === undefined || acceptability === undefined || standingDecision(state, job.name) !== undefined)
    return undefined;
  const { possible, notesWanted, replaces } = acceptability;
  if (!possible && !notesWanted) return acceptability;
  const refusal = (notesWanted ? notesRefusal(state, job) : undefined) ?? staleRefusal(state, job);
  if (refusal !== undefined) return { possible: false, reason: refusal };
  if (!notesWanted) return acceptability;
  return {
    possible: true,
    reason: 'NOTES.md is filled in now',
    ...(replaces !== undefined && { replaces }),
  };
}

/**
 * Champions that the job's build would replace: they have the same kernel, device, protocol and dtype, and share at
 * least one shape.
 */
export function replacedBy({ champions }: Pick<DecisionFacts, 'champions'>, job: JobView): Champion[] {
  const { provenance, variants = [] } = job.result ?? {};
  const shapes = new Set((variants[0]?.benchmarks ?? []).flatMap(({ shape }) => (shape ? [formatShape(shape)] : [])));
  return champions.filter(
    (champion) =>
      champion.job !== job.name &&
      champion.kernelId === job.kernelId &&
      champion.deviceName === provenance?.device?.name &&
      champion.protocol === provenance.protocol &&
      recordedDtype(champion.dtype) === recordedDtype(provenance.dtype) &&
      champion.shapes.some((shape) => shapes.has(formatShape(shape))),
  );
}
