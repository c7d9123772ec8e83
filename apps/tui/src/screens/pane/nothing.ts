/** The text of a view that has nothing to show: the reason, and the key that helps. */
import { JobKind, JobState, Outcome, Phase } from '@flashcore/shared/contract';
import { wrapRows, type Row } from '../../present/cells/row.ts';
import type { AppState } from '../../state/app-state.ts';
import { attachedJob, currentPhase, isSimulated, shownVariant, waitsSince } from '../../state/selectors.ts';
import { KIND_WORDS, outcomeWord } from '../../present/words.ts';
import { isBeingRead } from '../../state/job-view.ts';
import type { Size } from './view.ts';

export type Subject = 'correct' | 'latency' | 'build' | 'counters' | 'gates';

interface Words {
  /** Kinds of jobs that have what the view shows. */
  readonly kinds: readonly JobKind[];
  /** Phrase for a job of another kind, such as "takes no samples". */
  readonly other: string;
  /** Sentence for a running job, such as "Samples come after the verification." */
  readonly pending: string;
  /** `pending` for jobs of a kind that has fewer phases. */
  readonly pendingIn?: Partial<Record<JobKind, string>>;
  /** Phrase for a job that ended too early, such as "before a sample was taken". */
  readonly before: string;
}

const { BUILD, VERIFY, BENCHMARK, PROFILE, EXPERIMENT, TUNE } = JobKind;
const WORDS: Record<Subject, Words> = {
  correct: {
    kinds: [VERIFY, EXPERIMENT, TUNE],
    other: 'does not verify',
    pending: 'Cases run after the build.',
    pendingIn: { [TUNE]: 'Each variant is verified before it is timed: see 3.' },
    before: 'before any case ended',
  },
  latency: {
    kinds: [BENCHMARK, EXPERIMENT, TUNE],
    other: 'does not take samples',
    pending: 'Samples are taken after the verification.',
    pendingIn: { [BENCHMARK]: 'Samples are taken after the build.' },
    before: 'before any sample was taken',
  },
  build: {
    kinds: [BUILD, VERIFY, BENCHMARK, PROFILE, EXPERIMENT, TUNE],
    other: '',
    pending: "The compiler's figures come with the build.",
    pendingIn: { [TUNE]: 'Each variant has its own build: see 3.' },
    before: 'before anything was built',
  },
  counters: {
    kinds: [PROFILE, EXPERIMENT],
    other: 'does not read hardware counters',
    pending: 'Counters are read after the benchmark.',
    pendingIn: { [PROFILE]: 'Counters are read after the build.' },
    before: 'before any counter was read',
  },
  gates: {
    kinds: [EXPERIMENT],
    other: 'does not evaluate gates',
    pending: 'Gates are evaluated as results come in.',
    before: 'before any gate was evaluated',
  },
};

export const noAnswer = ({ connection, runner }: AppState): string =>
  connection === 'connecting'
    ? `Connecting to ${runner.label}. q quits.`
    : `No answer from ${runner.label} yet: fa-tui keeps trying. q quits.`;

/** A short form of the text, for a pane next to others, one of which shows it in full. */
export const noAnswerYet = ({ connection }: AppState): string =>
  connection === 'connecting' ? 'Connecting …' : 'No answer yet.';

interface EmptyList {
  /** All items, before the filter. */
  readonly all: readonly unknown[];
  /** Text if the runner has nothing to list. */
  readonly none: string;
  /** Noun for an item, such as "job". */
  readonly noun: string;
  readonly filter: string;
  /** Matches in the list that the key t shows, such as "4 problems"; empty if it has none. */
  readonly others?: string;
}

/** Text such as 'No kernel has "decode", but 4 problems (t). / changes the filter, Esc shows all.' */
export const noMatchText = ({ noun, filter, others = '' }: Pick<EmptyList, 'noun' | 'filter' | 'others'>): string =>
  `No ${noun} has "${filter}"${others === '' ? '' : `, but ${others} (t)`}. / changes the filter, Esc shows all.`;

/** Rows for an empty list: the runner has nothing, it has not answered, or the filter hides everything. */
export function emptyListRows(
  state: AppState,
  { all, none, noun, filter, others = '' }: EmptyList,
  { width }: Size,
): Row[] {
  if (all.length > 0) return wrapRows(noMatchText({ noun, filter, others }), width, { role: 'warn' });
  return wrapRows(state.connection === 'connected' ? none : noAnswer(state), width, { role: 'dim' });
}

/** The reason why there is nothing to show, and the key to press. */
export function nothingText(state: AppState, subject: Subject): string {
  const job = attachedJob(state);
  if (job === undefined) {
    if (state.connection !== 'connected') return noAnswer(state);
    return 'No job on this screen. 7, then Enter, runs a kernel; 6, then Enter, shows a job.';
  }
  const words = WORDS[subject];
  if (job.kind === JobKind.UNSPECIFIED) return 'Reading the events of this job.';
  if (!words.kinds.includes(job.kind) && state.watching?.job === job.name && job.kind === VERIFY)
    return `The quick check of a save ${words.other}; if it passes, the whole experiment follows.`;
  if (!words.kinds.includes(job.kind))
    return `A ${KIND_WORDS[job.kind]} job ${words.other}; Enter in 7 runs all phases.`;
  if (job.state !== JobState.ENDED && shownVariant(state)?.build?.succeeded === false)
    return `The build failed ${words.before}.`;
  if (subject === 'correct' && waitsSince(job, state.now) !== undefined)
    return isSimulated(state)
      ? 'The build is done; cases run once the emulator is ready. Its first start on a machine compiles it, for a minute or more.'
      : 'The build is done; cases run once the device is open.';
  if (job.state !== JobState.ENDED) {
    const phase = currentPhase(job)?.phase;
    if (subject === 'correct' && phase === Phase.VERIFY) return 'The first case is running.';
    if (subject === 'counters' && phase === Phase.PROFILE) return 'The counters are being read.';
    return words.pendingIn?.[job.kind] ?? words.pending;
  }
  if (isBeingRead(job)) return 'Reading the events of this job.';
  return job.outcome === Outcome.PASSED
    ? `The job ended ${words.before}.`
    : `The job ended (${outcomeWord(job)}) ${words.before}${state.ui.view === 'run' ? '' : ': 1 shows why'}.`;
}

export const nothingRows = (state: AppState, subject: Subject, { width }: Size): Row[] =>
  wrapRows(nothingText(state, subject), width, { role: 'dim' });

/** The text for a pane next to others. It leaves out the key to press, because another pane already names that. */
export function nothingYet(state: AppState, subject: Subject, size: Size): Row[] {
  if (attachedJob(state) !== undefined) return nothingRows(state, subject, size);
  const text = state.connection === 'connected' ? 'No job yet.' : noAnswerYet(state);
  return wrapRows(text, size.width, { role: 'dim' });
}
