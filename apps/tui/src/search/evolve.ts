import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { Outcome, VariantSchema, type Device, type KernelReference, type Variant } from '@flashcore/shared/contract';
import type { Connection } from '../connection/connect.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import { candidateOf, type CandidateSource } from './candidate-source.ts';
import { isCandidatesFault } from './evaluate.ts';
import { JobUndecided, runToResult, uuidOf, type EndedJob } from './experiment.ts';
import { experimentRequest, type ExperimentSettings, type Side } from './experiment-request.ts';
import { writeSource } from './kernel-source.ts';
import { islandOf, knownBefore, select } from './population.ts';
import { proposalRequest, requiredCases } from './proposal-request.ts';
import { askProposer } from './proposer.ts';
import { NoProposal, readAnswer, type Answer } from './protocol.ts';
import type { SearchStore } from './search-store.ts';
import { failedTrial, judgedTrial, type Trial, type TrialIdentity } from './trial.ts';

interface EvolveOptions {
  readonly store: SearchStore;
  readonly connection: Connection;
  readonly device: Device;
  readonly settings: ExperimentSettings;
  /** The root's compiler settings, except its parameters. */
  readonly variant: Variant;
  readonly environment: NodeJS.ProcessEnv;
  /** Limit on trials in flight. An island never has more than one trial in flight. */
  readonly inFlight: number;
  readonly signal: AbortSignal;
  /** Called in the order of trials. */
  readonly onTrial: (trial: Trial) => void;
  readonly onNote: (text: string) => void;
}

/** Limit on restarts of a job that was interrupted because the runner ended. */
const MAX_INTERRUPTIONS = 50;
/** Limit on attempts of a job that the runner could not carry out for another reason. */
const MAX_ERRORS = 3;
const AGAIN_AFTER_MS = 1000;
const MAX_LABEL = 1024;

/**
 * Runs a search to its end from its current state, with several trials in flight: while the device measures one, the
 * proposer and the runner's compilers work on the next. A decision about a trial depends only on the earlier trials
 * that knownBefore() allows, not on the number of trials in flight. Ended trials are read, and interrupted ones are
 * continued. Errors: reasons why the search cannot continue (RUNNER_UNREACHABLE, JobUndecided, the signal's reason); it
 * can then be resumed.
 */
export async function evolve(options: EvolveOptions): Promise<Trial[]> {
  const { store, onTrial } = options;
  const failed = new AbortController();
  const trials = store.trials();
  const search: RunningSearch = {
    ...options,
    signal: AbortSignal.any([options.signal, failed.signal]),
    judged: new JudgedCode(store, trials),
    outcomes: trials.map((trial) => Promise.resolve(trial)),
    uploads: new Map(),
  };
  /** Oldest first. */
  const inFlight: Promise<Trial>[] = [];
  try {
    for (;;) {
      const next = trials.length + inFlight.length;
      if (inFlight.length < options.inFlight && mayBegin(store, trials, next)) {
        const known = trials.slice(0, knownBefore(next, store.plan.islands));
        const outcome = flight(next, known, search);
        outcome.catch((error: unknown) => failed.abort(error));
        search.outcomes.push(outcome);
        inFlight.push(outcome);
        continue;
      }
      const ended = await inFlight.shift();
      if (!ended) return trials;
      trials.push(ended);
      onTrial(ended);
    }
  } catch (error) {
    await Promise.allSettled(inFlight);
    // After the first failure, the other trials only fail because they are aborted.
    throw failed.signal.aborted ? failed.signal.reason : error;
  }
}

/** True if trial `next` belongs to the search and all trials that its proposal depends on have ended. */
function mayBegin(store: SearchStore, trials: readonly Trial[], next: number): boolean {
  if (next === 0) return true;
  if (trials.length < knownBefore(next, store.plan.islands)) return false;
  return trials[0]!.status === 'root' && !isComplete(store, trials, next);
}

/** A search, and the state that its trials in flight share. */
interface RunningSearch extends EvolveOptions {
  readonly judged: JudgedCode;
  /** The outcome of every trial so far, by its number. */
  readonly outcomes: Promise<Trial>[];
  /** Uploads that have not ended, by trial. */
  readonly uploads: Map<number, Promise<KernelReference>>;
}

/** True if another trial may begin. GPU seconds and costs are added up after each trial. */
export function withinBudget(
  { plan: { maxUsd, maxDeviceSeconds } }: Pick<SearchStore, 'plan'>,
  trials: readonly Trial[],
): boolean {
  const { usd, deviceSeconds } = spent(trials);
  return (maxUsd === null || usd < maxUsd) && (maxDeviceSeconds === null || deviceSeconds < maxDeviceSeconds);
}

/**
 * GPU seconds and dollars. Dollars are the device's cost, if its rate is known, plus the proposer's cost, if it
 * reported one.
 */
export function spent(trials: readonly Trial[]): { deviceSeconds: number; usd: number } {
  return trials.reduce(
    ({ deviceSeconds, usd }, { evaluation, proposerUsd }) => ({
      deviceSeconds: deviceSeconds + (evaluation?.metrics['device_seconds'] ?? 0),
      usd: usd + (evaluation?.metrics['cost_usd'] ?? 0) + (proposerUsd ?? 0),
    }),
    { deviceSeconds: 0, usd: 0 },
  );
}

/** Finds the earlier trial with the same code. Trials take turns in the order of their numbers. */
class JudgedCode {
  readonly #store: SearchStore;
  readonly #trials = new Map<string, number>();
  #lastTurn: Promise<void> = Promise.resolve();

  constructor(store: SearchStore, trials: readonly Trial[]) {
    this.#store = store;
    for (const { trial } of trials) this.add(trial);
  }

  /** Adds the trial's candidate, if it has one. */
  add(trial: number): void {
    if (trial > 0 && this.#store.read(trial, 'candidate.json') === undefined) return;
    const key = keyOf(this.#store.candidate(trial));
    if (!this.#trials.has(key)) this.#trials.set(key, trial);
  }

  sameAs = (candidate: CandidateSource): number | undefined => this.#trials.get(keyOf(candidate));

  /** The turn of the next trial. It comes when all earlier turns have ended. */
  nextTurn(): Turn {
    const comes = this.#lastTurn;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#lastTurn = promise;
    return { comes, end: () => void comes.then(resolve) };
  }
}

interface Turn {
  readonly comes: Promise<void>;
  end(): void;
}

const keyOf = ({ files, parameters }: CandidateSource): string =>
  JSON.stringify([files, parameters].map((each) => Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1))));

/** Runs a trial and stores its result, or reads the result that was stored before the search was interrupted. */
async function flight(number: number, known: readonly Trial[], search: RunningSearch): Promise<Trial> {
  const { store, judged } = search;
  const turn = judged.nextTurn();
  try {
    const stored = store.read(number, 'trial.json');
    if (stored !== undefined) {
      await turn.comes;
      judged.add(number);
      return JSON.parse(stored) as Trial;
    }
    const trial = number === 0 ? await rootTrial(search) : await nextTrial(number, known, { search, turn });
    store.write(number, 'trial.json', JSON.stringify(trial, null, 2));
    return trial;
  } finally {
    turn.end();
  }
}

async function rootTrial(search: RunningSearch): Promise<Trial> {
  const { root, kernelId } = search.store.plan;
  search.judged.add(0);
  const identity = { trial: 0, operator: 'init', parents: [], name: kernelId, thought: '' } as const;
  return experiment({ ...identity, parameters: root.parameters }, root, search, []);
}

async function nextTrial(
  number: number,
  known: readonly Trial[],
  { search, turn }: { search: RunningSearch; turn: Turn },
): Promise<Trial> {
  const { store } = search;
  const selection = select(number, known, store.plan);
  const identity: TrialIdentity = {
    trial: number,
    ...(store.plan.islands > 1 && { island: islandOf(number, store.plan.islands) }),
    operator: selection.operator,
    parents: selection.parents.map(({ trial }) => trial),
    name: '',
    thought: '',
    parameters: {},
  };
  const request = proposalRequest({ store, device: search.device, trial: number, trials: known, selection });
  store.write(number, 'request.json', JSON.stringify(request, null, 2));
  try {
    const answer = await answerOf(request, search);
    const candidate = candidateOf(store.candidate(identity.parents[0]!), answer, store.plan.kernelId);
    await turn.comes;
    search.signal.throwIfAborted();
    await requireNew(candidate, search);
    store.write(number, 'candidate.json', JSON.stringify(candidate));
    search.judged.add(number);
    turn.end();
    return await experiment(named(identity, answer, candidate), candidate, search, known);
  } catch (error) {
    if (error instanceof NoProposal) return failedTrial(identity, 'no-proposal', oneLine(error.message));
    throw error;
  }
}

/** Refuses a candidate whose code and parameters equal those of an earlier trial. Errors: NoProposal. */
async function requireNew(candidate: CandidateSource, { judged, outcomes }: RunningSearch): Promise<void> {
  const same = judged.sameAs(candidate);
  if (same === undefined) return;
  const { status } = await outcomes[same]!;
  throw new NoProposal(`The code and parameters of trial ${same} again (${status}), not measured again`);
}

/** The proposer's answer. If the search was killed during this trial, the stored answer is used. */
async function answerOf(request: ReturnType<typeof proposalRequest>, options: EvolveOptions): Promise<Answer> {
  const { store, environment, signal } = options;
  const known = store.read(request.trial, 'answer.txt');
  if (known !== undefined) return readAnswer(known);
  const stdout = await askProposer(request, {
    command: store.plan.proposer,
    seconds: store.plan.proposerSeconds,
    logFile: `${store.trialFolder(request.trial)}/proposer.log`,
    environment,
    signal,
  });
  store.write(request.trial, 'answer.txt', stdout);
  return readAnswer(stdout);
}

const named = (identity: TrialIdentity, answer: Answer, { parameters }: CandidateSource): TrialIdentity => ({
  ...identity,
  name: oneLine(answer.name),
  thought: oneLine(answer.thought),
  parameters,
  ...(answer.tokens && { tokens: answer.tokens }),
  ...(answer.cost_usd !== undefined && { proposerUsd: answer.cost_usd }),
});

async function experiment(
  identity: TrialIdentity,
  candidate: CandidateSource,
  search: RunningSearch,
  trials: readonly Trial[],
): Promise<Trial> {
  const base = identity.parents.length > 0 ? trials[identity.parents[0]!] : undefined;
  try {
    const sides = {
      candidate: await sideOf(identity.trial, candidate, search),
      champion: base && (await sideOf(base.trial, search.store.candidate(base.trial), search)),
    };
    const ended = await decidedExperiment(identity, sides, search);
    return judgedTrial(identity, ended, { base, required: requiredCases(trials), plan: search.settings.plan });
  } catch (error) {
    // The root is the user's own kernel, so its faults are thrown as errors rather than stored as a failed trial.
    if (identity.trial !== 0 && isCandidatesFault(error))
      return failedTrial(identity, 'not-built', oneLine(error.message));
    throw error;
  }
}

async function sideOf(trial: number, { files, parameters }: CandidateSource, search: RunningSearch): Promise<Side> {
  const kernel = await uploaded(trial, files, search);
  const values = Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, BigInt(value)]));
  return { kernel, variant: create(VariantSchema, { ...search.variant, parameters: values }) };
}

/**
 * Uploads a trial's sources. Trials in flight with the same base share one upload, because each upload rewrites the
 * base's folder.
 */
function uploaded(
  trial: number,
  files: CandidateSource['files'],
  { store, connection, uploads }: RunningSearch,
): Promise<KernelReference> {
  const running = uploads.get(trial);
  if (running) return running;
  const folder = `${store.trialFolder(trial)}/source`;
  writeSource(folder, files);
  const upload = connection.client.uploadFolder(folder).finally(() => uploads.delete(trial));
  uploads.set(trial, upload);
  return upload;
}

/**
 * The experiment's result. Its request_id is derived from search, trial and attempt, so that a search that was killed
 * and resumed finds the job that it had started.
 */
async function decidedExperiment(
  identity: TrialIdentity,
  sides: { candidate: Side; champion: Side | undefined },
  { store, connection, settings, signal, onNote }: EvolveOptions,
): Promise<EndedJob> {
  let errors = 0;
  for (let attempt = 0; ; ++attempt) {
    const request = experimentRequest(settings, {
      ...sides,
      requestId: uuidOf(`${store.plan.id} ${identity.trial} ${attempt}`),
      labels: labelsOf(store.plan.id, identity),
    });
    try {
      return await runToResult(connection, request, { signal });
    } catch (error) {
      if (!(error instanceof JobUndecided)) throw error;
      if (error.job.outcome === Outcome.ERROR && ++errors >= MAX_ERRORS) throw error;
      if (attempt >= MAX_INTERRUPTIONS) throw error;
      onNote(`trial ${identity.trial}: ${error.message}; started again`);
      if (error.job.outcome === Outcome.ERROR) await sleep(AGAIN_AFTER_MS, undefined, { signal });
    }
  }
}

/** Labels that let any client follow the search. */
const labelsOf = (
  search: string,
  { trial, island, parents, name, thought, operator }: TrialIdentity,
): Record<string, string> => ({
  search,
  trial: String(trial),
  ...(island !== undefined && { island: String(island) }),
  operator,
  parents: parents.join(','),
  name: name.slice(0, MAX_LABEL),
  thought: thought.slice(0, MAX_LABEL),
});

const oneLine = (text: string): string => sanitize(text.replace(/\s+/g, ' ')).trim();

/** True if the search ends before trial `next`, because it has used up its trials, its budget or its patience. */
export function isComplete(
  store: Pick<SearchStore, 'plan'>,
  trials: readonly Trial[],
  next: number = trials.length,
): boolean {
  const known = trials.slice(0, knownBefore(next, store.plan.islands));
  return next > store.plan.trials || !withinBudget(store, known) || hasStalled(store, known);
}

function hasStalled({ plan: { patience } }: Pick<SearchStore, 'plan'>, trials: readonly Trial[]): boolean {
  if (patience === undefined) return false;
  const lastGain = trials.findLastIndex(({ status }) => status === 'accepted' || status === 'root');
  return trials.length - 1 - lastGain >= patience;
}
