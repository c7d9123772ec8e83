import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { Outcome, VariantSchema, type Device, type Variant } from '@flashcore/shared/contract';
import type { Connection } from '../connection/connect.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import { candidateOf, type CandidateSource } from './candidate-source.ts';
import { isCandidatesFault } from './evaluate.ts';
import { JobUndecided, runToResult, uuidOf, type EndedJob } from './experiment.ts';
import { experimentRequest, type ExperimentSettings, type Side } from './experiment-request.ts';
import { writeSource } from './kernel-source.ts';
import { select } from './population.ts';
import { proposalRequest, requiredCases } from './proposal-request.ts';
import { askProposer } from './proposer.ts';
import { NoProposal, readAnswer, type Answer } from './protocol.ts';
import type { SearchStore } from './search-store.ts';
import { failedTrial, judgedTrial, type Trial, type TrialIdentity } from './trial.ts';

export interface EvolveOptions {
  readonly store: SearchStore;
  readonly connection: Connection;
  readonly device: Device;
  readonly settings: ExperimentSettings;
  /** The root's compiler settings, except its parameters. */
  readonly variant: Variant;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  readonly onTrial: (trial: Trial) => void;
  readonly onNote: (text: string) => void;
}

/** A job that was interrupted by the runner's end is started again, at most this often. */
const MAX_INTERRUPTIONS = 50;
/** Limit on attempts for jobs that a runner could not carry out for another reason. */
const MAX_ERRORS = 3;
const AGAIN_AFTER_MS = 1000;
const MAX_LABEL = 1024;

/**
 * Runs a search to its end from its current state. Ended trials are read, and an interrupted one is continued. Errors:
 * reasons why the search cannot continue (RUNNER_UNREACHABLE, JobUndecided, the signal's reason); it can then be
 * resumed.
 */
export async function evolve(options: EvolveOptions): Promise<Trial[]> {
  const { store, onTrial } = options;
  const trials = store.trials();
  const judged = new JudgedCode(store, trials);
  while (!isComplete(store, trials)) {
    const trial = await runTrial(trials, judged, options);
    store.write(trial.trial, 'trial.json', JSON.stringify(trial, null, 2));
    trials.push(trial);
    judged.add(trial.trial);
    onTrial(trial);
    if (trial.trial === 0 && trial.status !== 'root') break;
  }
  return trials;
}

/** True if another trial may begin. GPU seconds and costs are counted after each trial. */
export function withinBudget(
  { plan: { maxUsd, maxDeviceSeconds } }: Pick<SearchStore, 'plan'>,
  trials: readonly Trial[],
): boolean {
  const { usd, deviceSeconds } = spent(trials);
  return (maxUsd === null || usd < maxUsd) && (maxDeviceSeconds === null || deviceSeconds < maxDeviceSeconds);
}

/** GPU seconds, and dollars: the device's if its rate is known, plus the proposer's if it reported them. */
export function spent(trials: readonly Trial[]): { deviceSeconds: number; usd: number } {
  return trials.reduce(
    ({ deviceSeconds, usd }, { evaluation, proposerUsd }) => ({
      deviceSeconds: deviceSeconds + (evaluation?.metrics['device_seconds'] ?? 0),
      usd: usd + (evaluation?.metrics['cost_usd'] ?? 0) + (proposerUsd ?? 0),
    }),
    { deviceSeconds: 0, usd: 0 },
  );
}

/** The trials whose code was judged, to find one with the same code. */
class JudgedCode {
  readonly #store: SearchStore;
  readonly #trials = new Map<string, number>();

  constructor(store: SearchStore, trials: readonly Trial[]) {
    this.#store = store;
    for (const { trial } of trials) this.add(trial);
  }

  /** Adds a trial that has ended. */
  add(trial: number): void {
    if (trial > 0 && this.#store.read(trial, 'candidate.json') === undefined) return;
    const key = keyOf(this.#store.candidate(trial));
    if (!this.#trials.has(key)) this.#trials.set(key, trial);
  }

  sameAs = (candidate: CandidateSource): number | undefined => this.#trials.get(keyOf(candidate));
}

const keyOf = ({ files, parameters }: CandidateSource): string =>
  JSON.stringify([files, parameters].map((each) => Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1))));

async function runTrial(trials: readonly Trial[], judged: JudgedCode, options: EvolveOptions): Promise<Trial> {
  const { store } = options;
  if (trials.length === 0) {
    const root = { trial: 0, operator: 'init', parents: [], name: store.plan.kernelId, thought: '' } as const;
    return experiment({ ...root, parameters: store.plan.root.parameters }, store.plan.root, options, trials);
  }
  const selection = select(trials, store.plan);
  const identity: TrialIdentity = {
    trial: trials.length,
    operator: selection.operator,
    parents: selection.parents.map(({ trial }) => trial),
    name: '',
    thought: '',
    parameters: {},
  };
  const request = proposalRequest({ store, device: options.device, trials, selection });
  store.write(identity.trial, 'request.json', JSON.stringify(request, null, 2));
  try {
    const answer = await answerOf(request, options);
    const candidate = candidateOf(store.candidate(identity.parents[0]!), answer, store.plan.kernelId);
    const same = judged.sameAs(candidate);
    if (same !== undefined)
      throw new NoProposal(
        `The code and parameters of trial ${same} again (${trials[same]!.status}), not measured again`,
      );
    store.write(identity.trial, 'candidate.json', JSON.stringify(candidate));
    return await experiment(named(identity, answer, candidate), candidate, options, trials);
  } catch (error) {
    if (error instanceof NoProposal) return failedTrial(identity, 'no-proposal', oneLine(error.message));
    throw error;
  }
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
  options: EvolveOptions,
  trials: readonly Trial[],
): Promise<Trial> {
  const base = identity.parents.length > 0 ? trials[identity.parents[0]!] : undefined;
  try {
    const sides = {
      candidate: await sideOf(identity.trial, candidate, options),
      champion: base && (await sideOf(base.trial, options.store.candidate(base.trial), options)),
    };
    const ended = await decidedExperiment(identity, sides, options);
    return judgedTrial(identity, ended, { base, required: requiredCases(trials), plan: options.settings.plan });
  } catch (error) {
    // The root is the user's own kernel, so its faults are reported as errors rather than counted as a trial.
    if (identity.trial !== 0 && isCandidatesFault(error))
      return failedTrial(identity, 'not-built', oneLine(error.message));
    throw error;
  }
}

async function sideOf(trial: number, { files, parameters }: CandidateSource, options: EvolveOptions): Promise<Side> {
  const folder = `${options.store.trialFolder(trial)}/source`;
  writeSource(folder, files);
  const kernel = await options.connection.client.uploadFolder(folder);
  const values = Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, BigInt(value)]));
  return { kernel, variant: create(VariantSchema, { ...options.variant, parameters: values }) };
}

/**
 * The experiment's result. Its request_id follows from search, trial and attempt, so that a killed search finds the job
 * that it had started.
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

/** Labels by which any client can follow the search. */
const labelsOf = (
  search: string,
  { trial, parents, name, thought, operator }: TrialIdentity,
): Record<string, string> => ({
  search,
  trial: String(trial),
  operator,
  parents: parents.join(','),
  name: name.slice(0, MAX_LABEL),
  thought: thought.slice(0, MAX_LABEL),
});

const oneLine = (text: string): string => sanitize(text.replace(/\s+/g, ' ')).trim();

/** True if a search has used up its trials, its budget or its patience. */
export const isComplete = (store: Pick<SearchStore, 'plan'>, trials: readonly Trial[]): boolean =>
  trials.length > store.plan.trials || !withinBudget(store, trials) || hasStalled(store, trials);

function hasStalled({ plan: { patience } }: Pick<SearchStore, 'plan'>, trials: readonly Trial[]): boolean {
  if (patience === undefined) return false;
  const lastGain = trials.findLastIndex(({ status }) => status === 'accepted' || status === 'root');
  return trials.length - 1 - lastGain >= patience;
}
