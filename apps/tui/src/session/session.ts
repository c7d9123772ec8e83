/** All communication with the runner: the watched job, and lists that are read repeatedly. Leaving never ends a job. */
import { fromJsonString } from '@bufbuild/protobuf';
import {
  InstructionListingSchema,
  JobState,
  Outcome,
  plainMessage,
  type InstructionListing,
  type JobEvent,
  type KernelReference,
} from '@flashcore/shared/contract';
import { counted, entryOf, errorText, plainLine } from '@flashcore/shared/text';
import { isUnreachable, Questions } from './questions.ts';
import { RunnerLists, type ProblemReader } from './runner-lists.ts';
import { namedKernel, type RequestedKernel } from './form-request.ts';
import { quickRequest, type RunnerPort, type StartRequest, type WatchFolder } from './runner-port.ts';
import type { KernelFolders, ListedKernel } from '../state/listed-kernel.ts';
import { cancelRequest, followSource } from '../watch/follow-source.ts';
import { acceptedText, rejectedText, undoneText } from '../present/sections/decisions.ts';
import { namedJob, shortName } from '../present/words.ts';
import { notesToHandIn, type Choice } from '../state/decision.ts';
import { firstPage, pinnedComparison } from '../state/pinned.ts';
import { readSamples, readSources } from './read-comparison.ts';
import { isBeingRead, type JobView } from '../state/job-view.ts';
import type { Store } from './store.ts';
import { jobSinceLeft, sinceLeftText } from '../state/since-left.ts';
import { idleFallback, openOwnJobs } from '../state/selectors.ts';
import { openListing } from '../state/source-place.ts';

const JOBS_EVERY_MS = 2_000;
const HOST_EVERY_MS = 10_000;
// The interval of readings, which are read only while they are shown, because each reading runs a program on the host.
const READINGS_EVERY_MS = 2_000;
// Reads the files of the user's folders only if they have changed.
const FOLDERS_EVERY_MS = 3_000;
const TICK_MS = 1_000;
/** Limit on a listing of instructions, larger than the runner's limits on an InstructionListing allow. */
const MAX_LISTING_BYTES = 16 * 2 ** 20;

interface SessionOptions {
  readonly client: RunnerPort;
  readonly store: Store;
  readonly now?: () => number;
  /** The user's own kernel folders; absent if they are not known, as in a replay. */
  readonly folders?: KernelFolders;
  /** Absent in a replay. */
  readonly problems?: ProblemReader;
  /** Restarts an embedded runner that was killed. Returns its new label. */
  readonly revive?: () => Promise<string | void>;
}

/** Parses a listing of instructions. Throws if the bytes are not a listing. */
export const readListing = (bytes: Uint8Array): InstructionListing =>
  plainMessage(
    InstructionListingSchema,
    fromJsonString(InstructionListingSchema, new TextDecoder().decode(bytes), { ignoreUnknownFields: true }),
    plainLine,
  );

/** The outcome of a request to cancel a job. */
interface Cancelled {
  readonly name: string;
  readonly state?: 'ending' | 'ended' | 'ended before';
  /** Why the runner refused it. */
  readonly refusal?: string;
}

const MOST_NAMED = 3;
const LIST = new Intl.ListFormat('en-GB');

/** "a, b and c", or "a, b, c and 2 others". */
function listed(names: readonly string[]): string {
  const others = names.length - MOST_NAMED;
  return LIST.format([...names.slice(0, MOST_NAMED), ...(others > 0 ? [counted(others, 'other')] : [])]);
}

interface Beginning {
  start?: StartRequest | undefined;
  watchJob?: string | undefined;
  watchFolder?: WatchFolder | undefined;
  lastJob?: string | undefined;
}

export class Session {
  readonly #client: RunnerPort;
  readonly #store: Store;
  readonly #now: () => number;
  readonly #folders: KernelFolders | undefined;
  readonly #ended = new AbortController();
  readonly #timers: NodeJS.Timeout[] = [];
  #watch: AbortController | undefined;
  #watching: AbortController | undefined;
  /** True if the user chose a job after the last save of the watched folder. The save's jobs then do not replace it. */
  #hasChosen = false;
  /** A job of the watched folder that is shown once no prompt or dialog is open. */
  #nextVersion: string | undefined;
  /** True if the shown job's stream has ended because the runner was lost for too long. */
  #isCut = false;
  #wasLost = false;
  readonly #questions: Questions;
  readonly #askedListings = new Set<string>();
  /** Data that is read repeatedly. */
  readonly lists: RunnerLists;

  constructor({ client, store, now = Date.now, folders, problems, revive }: SessionOptions) {
    this.#client = client;
    this.#store = store;
    this.#now = now;
    this.#folders = folders;
    this.#questions = new Questions({
      store,
      signal: this.#ended.signal,
      revive,
      onLost: () => (this.#wasLost = true),
    });
    this.lists = new RunnerLists({ client, store, folders, problems, questions: this.#questions });
  }

  /**
   * Loads the lists. Then shows a job: the given one, or else a running one, or else one that ended while the user was
   * away, or else the last one shown, or else the newest.
   */
  async begin({ start, watchJob, watchFolder, lastJob }: Beginning = {}): Promise<void> {
    this.#store.subscribe(() => this.#readOpenListing());
    this.#store.subscribe(() => this.#showNextVersion());
    this.#every(TICK_MS, () => this.#store.dispatch({ type: 'tick', now: this.#now() }));
    this.#every(JOBS_EVERY_MS, () => void this.poll());
    this.#every(HOST_EVERY_MS, () => void this.lists.host());
    this.#every(FOLDERS_EVERY_MS, () => void this.lists.ownKernels());
    this.#every(READINGS_EVERY_MS, () => this.lists.readings());
    if (start !== undefined) this.start(start);
    if (watchJob !== undefined) this.attach(watchJob);
    if (watchFolder !== undefined) this.watchFolder(watchFolder);
    await this.lists.all();
    const since = sinceLeftText(this.#store.state);
    if (since !== undefined) this.#store.dispatch({ type: 'notice', text: since, tone: 'info' });
    const { jobs } = this.#store.state;
    const last = jobs.find(({ name }) => name === lastJob);
    const running = [last, ...jobs].find((job) => job?.state === JobState.RUNNING);
    const job = running ?? jobSinceLeft(this.#store.state) ?? last ?? jobs[0];
    if (this.#watch === undefined && this.#watching === undefined && job !== undefined && !this.#ended.signal.aborted)
      this.#show(job.name);
  }

  /** Stops reading and watching. Jobs continue. */
  end(): void {
    this.#ended.abort();
    this.#watch?.abort();
    this.#watching?.abort();
    for (const timer of this.#timers) clearInterval(timer);
    this.#store.close();
  }

  /** Starts a job and shows it. */
  start({ method, request }: StartRequest, onJob?: (job: string) => void): void {
    this.#hasChosen = true;
    this.#store.dispatch({ type: 'show', view: 'run' });
    void this.#follow((signal, onConnection) => this.#client.start(method, request, { signal, onConnection }), onJob);
  }

  /** Starts a job of the watched folder and reads it to its end, whether or not it is shown. */
  async #runVersion({ method, request }: StartRequest, onJob: (job: string) => void): Promise<void> {
    const { signal } = this.#ended;
    const onConnection = (connection: 'connected' | 'reconnecting'): void => this.#questions.connection(connection);
    let name: string | undefined;
    try {
      for await (const event of this.#client.start(method, request, { signal, onConnection })) {
        if (signal.aborted) return;
        name = event.job;
        this.#store.dispatch({ type: 'job-event', event });
        if (event.payload.case === 'created') onJob(event.job);
        if (event.payload.case === 'finished') void this.lists.afterJob();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (name === this.#store.state.attached) this.#isCut = isUnreachable(error);
      this.#questions.report(error);
    }
  }

  /** Shows a job of the watched folder in the current view, unless the user chose another job after the save. */
  #showNextVersion(): void {
    const job = this.#nextVersion;
    // Nothing moves below a prompt or a dialog.
    if (job === undefined || this.#store.state.ui.overlay !== undefined) return;
    this.#nextVersion = undefined;
    if (this.#hasChosen) return;
    this.#watch?.abort();
    this.#isCut = false;
    this.#store.dispatch({ type: 'attach', job, isVersion: true });
  }

  /**
   * Starts a job for a kernel. If the kernel has a folder, the folder is uploaded first. `onJob` gets the job's name.
   */
  async startKernel(
    { kernelId, folder }: Pick<ListedKernel, 'kernelId' | 'folder'>,
    requestFor: (kernel: RequestedKernel) => StartRequest,
    onJob?: (job: string) => void,
  ): Promise<void> {
    await this.#stopFallbackOf(kernelId);
    if (folder === undefined) return this.start(requestFor(namedKernel(kernelId)), onJob);
    await this.#questions.ask(async () => this.start(requestFor(await this.#upload(folder)), onJob));
  }

  /** Stops the user's fallback of this kernel that decides nothing, so that the next job gets the device at once. */
  async #stopFallbackOf(kernelId: string): Promise<void> {
    const { views } = this.#store.state;
    const job = openOwnJobs(this.#store.state).find((name) => {
      const view = entryOf(views, name);
      return view?.kernelId === kernelId && idleFallback(view) !== undefined;
    });
    if (job !== undefined)
      await this.#questions.ask(async (signal) => void (await this.#client.cancelJob({ name: job }, { signal })));
  }

  /** Reads the kernel in a folder on this machine. */
  readKernel(folder: string): Promise<ListedKernel> | undefined {
    return this.#folders?.read(folder);
  }

  async #upload(folder: string): Promise<KernelReference> {
    const kernel = await this.#client.uploadFolder(folder);
    const problem = this.#folders?.remember(folder);
    if (problem !== undefined) this.#store.dispatch({ type: 'notice', text: problem, tone: 'warn' });
    void this.lists.kernels();
    return kernel;
  }

  /** Runs every saved version of a folder. A new version ends the run of the previous one. */
  watchFolder({ folder, requestFor, quick = false }: WatchFolder): void {
    this.#watching?.abort();
    const watching = new AbortController();
    this.#watching = watching;
    this.#hasChosen = false;
    this.#store.dispatch({ type: 'watching', folder });
    this.#store.dispatch({ type: 'show', view: 'run' });
    const run = async (kernel: KernelReference, signal: AbortSignal): Promise<void> => {
      const superseded = new Promise<void>((resolve) =>
        signal.addEventListener('abort', () => resolve(), { once: true }),
      );
      const runTo = async (request: StartRequest, isRest: boolean): Promise<Outcome | undefined> => {
        let name = '';
        const started = (job: string): void => {
          name = job;
          this.#store.dispatch({ type: 'version-started', job, isRest });
          this.#nextVersion = job;
          this.#showNextVersion();
        };
        // If another job is shown meanwhile, this one is still read to its end: the next save is compared with it, and
        // in a quick run the remaining cases follow it.
        const ended = this.#runVersion(request, started).then(() => (name === '' ? undefined : this.read(name)));
        await Promise.race([ended, superseded]);
        if (signal.aborted) await cancelRequest(this.#client, request.request.options?.requestId ?? '');
        return signal.aborted ? undefined : entryOf(this.#store.state.views, name)?.outcome;
      };
      // If the smallest case fails, the remaining cases are not run.
      if (quick && (await runTo(quickRequest(kernel), false)) !== Outcome.PASSED) return;
      if (watching.signal.aborted) return;
      await runTo(requestFor(kernel), quick);
    };
    void followSource({
      folder,
      run,
      upload: (from) => this.#upload(from),
      onProblem: (error) => this.#questions.report(error, 'folder'),
      onSave: () => {
        this.#hasChosen = false;
        this.#store.dispatch({ type: 'saved' });
      },
      signal: watching.signal,
    }).catch((error: unknown) => {
      if (watching.signal.aborted) return;
      // The watch has failed, so it ends, and the key W asks for a folder again.
      this.stopWatchingFolder();
      this.#questions.report(error);
    });
  }

  /** Ends the watch. Running jobs continue; the rest of a version whose smallest case is running is not started. */
  stopWatchingFolder(): void {
    this.#watching?.abort();
    this.#watching = undefined;
    this.#store.dispatch({ type: 'watching', folder: undefined });
  }

  /** Shows a job that the user chose, and follows it to its end. */
  attach(job: string): void {
    this.#hasChosen = job !== this.#store.state.watching?.job;
    this.#show(job);
  }

  /** Shows a job and follows it to its end, from the last event that this client has. */
  #show(job: string): void {
    this.#store.dispatch({ type: 'attach', job });
    const view = entryOf(this.#store.state.views, job);
    if (isWhole(view)) {
      this.#watch?.abort();
      return;
    }
    void this.#follow((signal, onConnection) =>
      this.#client.watch(job, {
        afterSequence: view?.lastSequence ?? 0,
        signal,
        onConnection,
        onExpired: (first) => this.#expired(job, first),
      }),
    );
  }

  /** Compares `job` with `pinned`. Reads both jobs to their end, and the samples of the benchmarks that both have. */
  async compare(job: string, pinned: string): Promise<void> {
    this.attach(job);
    this.#store.dispatch({ type: 'compare', on: true });
    this.#store.dispatch({ type: 'show', view: 'latency' });
    await this.#questions.ask(async (signal) => {
      await Promise.all([this.#load(job, signal), this.#load(pinned, signal)]);
      const { views } = this.#store.state;
      const reading = { client: this.#client, store: this.#store, signal };
      const comparison = pinnedComparison(this.#store.state);
      if (comparison !== undefined && this.#store.state.ui.comparePage === 'latency')
        this.#store.dispatch({ type: 'compare-page', page: firstPage(comparison) });
      await readSamples([entryOf(views, job), entryOf(views, pinned)], reading);
      await readSources(pinnedComparison(this.#store.state), reading);
    });
  }

  /** Reads the listing that view 4 shows, unless it was read before. */
  #readOpenListing(): void {
    const { state } = this.#store;
    const file = openListing(state)?.file.file;
    if (file === undefined || this.#askedListings.has(file.sha256)) return;
    const { sha256, sizeBytes } = file;
    this.#askedListings.add(sha256);
    const read = async (signal: AbortSignal): Promise<void> =>
      this.#store.dispatch({
        type: 'listing',
        sha256,
        listing: readListing(await this.#client.readArtifact(sha256, { signal })),
      });
    const isTooLong = sizeBytes > MAX_LISTING_BYTES;
    void (isTooLong ? Promise.resolve(false) : this.#questions.ask(read)).then((isRead) => {
      if (!isRead) this.#store.dispatch({ type: 'listing', sha256, listing: 'unreadable' });
    });
  }

  /** Applies the events of a job that is not on the screen. */
  async #load(job: string, signal: AbortSignal): Promise<void> {
    const view = entryOf(this.#store.state.views, job);
    if (isWhole(view)) return;
    for await (const event of this.#client.watch(job, {
      afterSequence: view?.lastSequence ?? 0,
      signal,
      onExpired: (first) => this.#expired(job, first),
    })) {
      if (signal.aborted) return;
      this.#store.dispatch({ type: 'job-event', event });
    }
  }

  #expired(job: string, first: bigint): void {
    this.#store.dispatch({ type: 'events-expired', job, first });
    this.#store.dispatch({
      type: 'notice',
      text: `The job's events before number ${first} are no longer kept`,
      tone: 'info',
      until: ({ attached }) => attached !== undefined && attached !== job,
    });
  }

  /**
   * Cancels the jobs, and tells by name which have ended, will end or cannot be cancelled. A job that cannot be
   * cancelled, for example because it is another user's, does not stop the others.
   */
  async cancel(jobs: readonly string[]): Promise<void> {
    const answers = await Promise.all(jobs.map((name) => this.#cancelled(name)));
    await this.lists.jobs();
    const { jobs: now } = this.#store.state;
    // A running job may have ended by now, too.
    const stateOf = ({ name, state }: Cancelled): Cancelled['state'] =>
      state === 'ending' && now.find((job) => job.name === name)?.state === JobState.ENDED ? 'ended' : state;
    const named = (wanted: Cancelled['state']): string[] =>
      answers.flatMap((answer) => (stateOf(answer) === wanted ? this.#titleOf(answer.name) : []));
    const [ending, ended, before] = [named('ending'), named('ended'), named('ended before')];
    const refused = answers.flatMap(({ name, refusal }) =>
      refusal === undefined ? [] : `Cannot cancel ${this.#titleOf(name)}: ${refusal}`,
    );
    const text = [
      ...(ended.length > 0 ? [`Cancelled ${listed(ended)}`] : []),
      ...(ending.length > 0
        ? [`Cancelling ${listed(ending)}: ${ending.length === 1 ? 'it ends' : 'they end'} within two seconds`]
        : []),
      ...(before.length > 0 ? [`${listed(before)} had already ended`] : []),
      ...refused,
    ].join('. ');
    if (text === '') return;
    const pending = answers.flatMap((answer) => (stateOf(answer) === 'ending' ? answer.name : []));
    const isRefused = refused.length > 0;
    this.#store.dispatch({
      type: 'notice',
      text,
      tone: isRefused ? 'warn' : 'info',
      // A refusal stays on the screen when the other jobs have ended.
      about: isRefused ? undefined : 'cancel',
      ...(!isRefused && { jobs: pending }),
    });
  }

  /** Cancels a job. Reports a lost runner; the state is then undefined. */
  async #cancelled(name: string): Promise<Cancelled> {
    let answer: Cancelled = { name };
    await this.#questions.ask(async (signal) => {
      try {
        const { job } = await this.#client.cancelJob({ name }, { signal });
        // A job that waited has ended by now, and one may have ended while the user confirmed.
        const ended = job?.outcome === Outcome.CANCELLED ? 'ended' : 'ended before';
        answer = { name, state: job?.state === JobState.ENDED ? ended : 'ending' };
      } catch (error) {
        if (signal.aborted || isUnreachable(error)) throw error;
        answer = { name, refusal: errorText(error) };
      }
    });
    return answer;
  }

  #titleOf(name: string): string {
    const { views, jobs } = this.#store.state;
    const job = jobs.find((each) => each.name === name) ?? entryOf(views, name);
    // Without the parameters, because those of a few jobs would fill the message.
    return job === undefined ? shortName(name) : namedJob({ ...job, label: job.kernelId });
  }

  /** Reads a job to its end without showing it. */
  async read(job: string): Promise<void> {
    await this.#questions.ask((signal) => this.#load(job, signal));
  }

  /** Reads what a decision depends on: the job to its end, and the current champions. */
  async prepareDecision(job: string): Promise<void> {
    await Promise.all([this.read(job), this.lists.champions(), this.lists.ownKernels()]);
  }

  /** Makes a decision. Returns false if the runner refused it, and shows the refusal as a notice. */
  async decide(choice: Choice, job: string, note: string): Promise<boolean> {
    const decided = await this.#questions.ask(async (signal) =>
      this.#store.dispatch({ type: 'notice', text: await this.#decided(choice, { job, note }, signal), tone: 'info' }),
    );
    await Promise.all([this.lists.champions(), this.lists.experiments()]);
    return decided;
  }

  /** Makes the decision and returns a description of its effect. */
  async #decided(
    choice: Choice,
    request: { readonly job: string; readonly note: string },
    signal: AbortSignal,
  ): Promise<string> {
    switch (choice) {
      case 'accept':
        return acceptedText(await this.#client.accept({ ...request, ...this.#shown(request.job) }, { signal }));
      case 'reject':
        return rejectedText(await this.#client.reject(request, { signal }));
      case 'undo':
        return undoneText(await this.#client.undo(request, { signal }));
    }
  }

  /** The champion that the job was compared with, as the user saw it, and the notes that it lacked. */
  #shown(job: string): { over: string; notes: string } {
    const { views, kernels } = this.#store.state;
    const view = entryOf(views, job);
    const { over = '', notesWanted = false } = view?.result?.acceptability ?? {};
    return { over, notes: view !== undefined && notesWanted ? notesToHandIn(kernels, view) : '' };
  }

  /** An artifact's bytes. Errors: ARTIFACT_NOT_FOUND, RUNNER_UNREACHABLE. */
  readonly readArtifact = (sha256: string): Promise<Buffer> =>
    this.#client.readArtifact(sha256, { signal: this.#ended.signal });

  /** Applies a stream's events until it ends or another job is shown. */
  async #follow(
    open: (signal: AbortSignal, onConnection: (state: 'connected' | 'reconnecting') => void) => AsyncIterable<JobEvent>,
    onJob: (job: string) => void = () => undefined,
  ): Promise<void> {
    this.#watch?.abort();
    const watch = new AbortController();
    this.#watch = watch;
    this.#isCut = false;
    try {
      for await (const event of open(watch.signal, (connection) => this.#questions.connection(connection))) {
        if (watch.signal.aborted) return;
        this.#store.dispatch({ type: 'job-event', event });
        if (this.#store.state.attached !== event.job) this.#store.dispatch({ type: 'attach', job: event.job });
        if (event.payload.case === 'created') onJob(event.job);
        if (event.payload.case === 'finished') void this.lists.afterJob();
      }
    } catch (error) {
      if (watch.signal.aborted) return;
      this.#isCut = isUnreachable(error);
      this.#questions.report(error);
    }
  }

  /**
   * Reads the jobs. Once a lost runner answers again, reads everything that may have changed, and continues to read the
   * shown job if its stream has ended in the meantime.
   */
  async poll(): Promise<void> {
    await this.lists.jobs();
    const { connection, attached } = this.#store.state;
    if (connection !== 'connected' || !this.#wasLost) return;
    this.#wasLost = false;
    if (this.#isCut && attached !== undefined) this.#show(attached);
    await this.lists.all();
  }

  #every(milliseconds: number, action: () => void): void {
    this.#timers.push(setInterval(action, milliseconds));
  }
}

/**
 * True if this client has the job's last event. A watch that starts after that event yields nothing, and would look
 * like a lost runner.
 */
const isWhole = (view: JobView | undefined): boolean => view?.state === JobState.ENDED && !isBeingRead(view);
