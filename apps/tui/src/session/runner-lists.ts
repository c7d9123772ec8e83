import type { RpcRequestInit } from '@flashcore/shared/client';
import { FlashcoreError, JobState, type Job, type LeaderboardPlace } from '@flashcore/shared/contract';
import type { AppState } from '../state/app-state.ts';
import { attachedJob, isBuilding, isSimulated, isTiming } from '../state/selectors.ts';
import type { ListedProblem } from '../present/sections/problem.ts';
import type { Questions } from './questions.ts';
import type { KernelFolders } from '../state/listed-kernel.ts';
import type { RunnerPort } from './runner-port.ts';
import type { Store } from './store.ts';

interface ListsOptions {
  readonly client: RunnerPort;
  readonly store: Store;
  readonly folders: KernelFolders | undefined;
  readonly problems: ProblemReader | undefined;
  readonly questions: Questions;
}

/** Reads the problems of this installation and project. */
export type ProblemReader = () => Promise<readonly ListedProblem[]>;

/** Data that is read from the runner repeatedly. Each call updates the store. */
export class RunnerLists {
  readonly #client: RunnerPort;
  readonly #store: Store;
  readonly #folders: KernelFolders | undefined;
  readonly #problems: ProblemReader | undefined;
  readonly #questions: Questions;
  /** Ids of kernels that are not listed although their folders were sought. */
  readonly #soughtKernels = new Set<string>();
  #polling = false;

  constructor({ client, store, folders, problems, questions }: ListsOptions) {
    this.#client = client;
    this.#store = store;
    this.#folders = folders;
    this.#problems = problems;
    this.#questions = questions;
  }

  /** Reads all data that the end of a job may have changed. */
  async afterJob(): Promise<void> {
    await Promise.all([this.jobs(), this.experiments(), this.host(), this.champions()]);
  }

  async all(): Promise<void> {
    await Promise.all([this.afterJob(), this.kernels()]);
  }

  async jobs(): Promise<void> {
    // Skips a poll while the previous one has not been answered, so that a slow runner gets only one call at a time.
    if (this.#polling) return;
    this.#polling = true;
    try {
      await this.#questions.ask(async (signal) => {
        const { jobs } = await this.#client.listJobs({ pageSize: 200 }, { signal });
        const before = this.#store.state.jobs;
        this.#store.dispatch({ type: 'jobs', jobs });
        if (endedMeanwhile(before, jobs)) void this.experiments();
        if (this.#isNewKernel(jobs)) void this.ownKernels();
      });
    } finally {
      this.#polling = false;
    }
  }

  /** True if a job has a kernel that is not listed: a command in another terminal may have added its folder. */
  #isNewKernel(jobs: readonly Job[]): boolean {
    const listed = new Set(this.#store.state.kernels.map(({ kernelId }) => kernelId));
    const fresh = jobs.filter(({ kernelId }) => !listed.has(kernelId) && !this.#soughtKernels.has(kernelId));
    for (const { kernelId } of fresh) this.#soughtKernels.add(kernelId);
    return listed.size > 0 && fresh.length > 0;
  }

  /** Reads the host, if its readings are on the screen. */
  readings(): void {
    if (showsReadings(this.#store.state)) void this.host();
  }

  async host(): Promise<void> {
    const readings = showsReadings(this.#store.state);
    await this.#questions.ask(async (signal) => {
      const { host, caller, plans, caseSets, tolerances } = await this.#client.getHost({ readings }, { signal });
      if (host !== undefined) this.#store.dispatch({ type: 'host', host, caller, plans, caseSets, tolerances });
    });
  }

  async kernels(): Promise<void> {
    const includeFaulty = this.#store.state.ui.faulty;
    await this.#questions.ask(async (signal) => {
      const [own, { kernels }] = await Promise.all([
        this.#folders?.list(),
        this.#client.listKernels({ includeFaulty }, { signal }),
      ]);
      this.#store.dispatch({ type: 'kernels', kernels: [...(own?.kernels ?? []), ...kernels] });
      if (own?.problem !== undefined) this.#store.dispatch({ type: 'notice', text: own.problem, tone: 'warn' });
    });
  }

  /**
   * Reads the user's own folders again, because their sources may have changed, and a command in another terminal may
   * have added one.
   */
  async ownKernels(): Promise<void> {
    const own = await this.#folders?.list();
    const { kernels } = this.#store.state;
    // Before the runner's first answer, the list would lack the runner's kernels.
    if (own === undefined || kernels.length === 0) return;
    const before = kernels.filter(({ folder }) => folder !== undefined);
    if (before.length === own.kernels.length && own.kernels.every((kernel, index) => kernel === before[index])) return;
    const ofRunner = kernels.filter(({ folder }) => folder === undefined);
    this.#store.dispatch({ type: 'kernels', kernels: [...own.kernels, ...ofRunner] });
  }

  /** Reads the problems again, because their files may have changed. A replay has none. */
  async problems(): Promise<void> {
    try {
      this.#store.dispatch({ type: 'problems', problems: (await this.#problems?.()) ?? [] });
    } catch (error) {
      // The folder of problems cannot be read, so the list stays empty and a notice shows the reason.
      if (!(error instanceof FlashcoreError)) throw error;
      this.#store.dispatch({ type: 'problems', problems: [] });
      this.#store.dispatch({ type: 'notice', text: error.message, tone: 'warn' });
    }
  }

  async experiments(): Promise<void> {
    await this.#questions.ask(async (signal) =>
      this.#store.dispatch({
        type: 'experiments',
        experiments: (await this.#client.listExperiments({ pageSize: 200 }, { signal })).experiments,
      }),
    );
  }

  async champions(): Promise<void> {
    await this.#questions.ask(async (signal) =>
      this.#store.dispatch({
        type: 'champions',
        champions: await this.#client.listChampions({ includeDecisions: true }, { signal }),
      }),
    );
  }

  /**
   * Reads the leaderboard of `place`; by default of the place that is shown. If none is shown yet, the runner chooses
   * the place.
   */
  async leaderboard(place = this.#store.state.leaderboard?.place): Promise<void> {
    await this.#questions.ask(async (signal) =>
      this.#store.dispatch({
        type: 'leaderboard',
        leaderboard: await this.#client.getLeaderboard(place === undefined ? {} : placeRequest(place), { signal }),
      }),
    );
  }
}

/** True if a job of another client has ended: this client gets no event about it. */
function endedMeanwhile(before: readonly Job[], jobs: readonly Job[]): boolean {
  if (before.length === 0) return false;
  const ended = new Set(before.filter(({ state }) => state === JobState.ENDED).map(({ name }) => name));
  return jobs.some(({ name, state }) => state === JobState.ENDED && !ended.has(name));
}

/** True if readings are shown: in view 8, and while the emulator's host compiles or the emulator is timing. */
const showsReadings = (state: AppState): boolean => {
  const job = attachedJob(state);
  return state.ui.view === 'host' || (isSimulated(state) && (isTiming(job) || isBuilding(job)));
};

const placeRequest = ({
  deviceName,
  problem,
  shape,
  caseSet,
  dtype,
  mode,
  protocol,
}: LeaderboardPlace): RpcRequestInit<'getLeaderboard'> => ({
  deviceName,
  problem,
  caseSet,
  dtype,
  mode,
  protocol,
  ...(shape && { shape }),
});
