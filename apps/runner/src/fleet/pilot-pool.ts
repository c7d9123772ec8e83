import {
  FlashcoreError,
  type Device,
  type Fleet,
  type FleetBuilds,
  type JobEvent,
  type JobFinished,
} from '@flashcore/shared/contract';
import type { Assignment, Register } from '@flashcore/shared/fleet';
import { plainLine } from '@flashcore/shared/text';
import type { ClientLoad } from '../jobs/job-context.ts';
import type { Logger } from '../log.ts';
import type { FleetTable, LeaseRow, PilotRow } from '../store/fleet-table.ts';
import { FleetAccount } from './fleet-account.ts';
import type { PartitionSettings } from './fleet-file.ts';
import { asPartition, expectedDevice } from './partition-devices.ts';
import { fittest, NO_WANTS, type NodeWants } from './node-wants.ts';
import { admitted, lacksOf, missingOf, requireModel } from './pilot-admission.ts';
import { LeaseLost, type Lease, type LeaseOptions, type PilotLink, type PilotSession } from './pilot-link.ts';

/** A pilot that has registered, or that had before the gateway was started again. */
interface LivePilot extends PilotRow {
  /** Undefined: it is away, and may come back. */
  link: PilotLink | undefined;
  node: string;
  device: Device;
  lacks: string;
  /** Names of the tools that the node does not have. */
  missing: ReadonlySet<string>;
  startMs: number;
  idleSinceMs: number;
  secondsLeft: number | undefined;
  leaving: boolean;
  work: Work | undefined;
  /** Ends the wait for one that is away. */
  givenUp?: NodeJS.Timeout | undefined;
}

interface Work {
  lease: number;
  job: string;
  sinceMs: number;
  /** The pilot's number of the last event. */
  heard: number;
  /** Notes in the store how far its events are. */
  noted: () => void;
  onEvent: LeaseOptions['onEvent'];
  /** The pilot was told to stop it, or is to be once it is back. */
  stopping: boolean;
  end: PromiseWithResolvers<JobFinished>;
}

interface Waiting {
  partition: string;
  job: string;
  wants: () => NodeWants;
  promise: PromiseWithResolvers<Lease>;
}

interface TakeOptions {
  signal: AbortSignal;
  /** What the job wants of a node; asked where nodes lack something. Default: nothing. */
  wants?: () => NodeWants;
}

/** The jobs before the pool, by partition. */
export interface QueueState {
  queued: (partition: string) => number;
  clients: (partition: string) => ClientLoad[];
  /** Undefined: pilots build. */
  builds?: FleetBuilds | undefined;
}

export interface PoolOptions {
  partitions: readonly PartitionSettings[];
  table: FleetTable;
  /** Digest of the code that pilots must have. */
  buildId: string;
  logger: Logger;
  nowMs?: () => number;
  /** How long a pilot whose link broke may take to come back; default 30 s. */
  awayMs?: number;
}

/** A pilot whose scheduler ends it sooner takes no further job. */
const LEAST_SECONDS_LEFT = 60;
/** Less than a stopped job has (STOP_GRACE_MS), so that the partition never counts as held. */
const STOP_WITHIN_MS = 4_000;
const AWAY_MS = 30_000;
const SESSION = /^[\w-]{43}$/;

/** The pilots of a gateway: who may register, which has which job, and what becomes of a job whose pilot is lost. */
export class PilotPool {
  readonly #options: PoolOptions;
  readonly #nowMs: () => number;
  /** By their number in the store: Slurm may give a job number again. */
  readonly #live = new Map<number, LivePilot>();
  readonly #waiting: Waiting[] = [];
  readonly #devices: Map<string, Device>;
  readonly account = new FleetAccount();

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#devices = new Map(options.partitions.map((settings) => [settings.partition, expectedDevice(settings)]));
  }

  /** A device for each partition, in the order of the fleet file. */
  devices(): Device[] {
    return [...this.#devices.values()];
  }

  /** The partition that is a device of the gateway. */
  partitionOf(deviceId: string): string {
    const found = [...this.#devices].find(([, device]) => device.deviceId === deviceId);
    if (found) return found[0];
    throw new FlashcoreError(
      'DEVICE_UNAVAILABLE',
      { device_id: deviceId },
      `${deviceId} is no partition of this gateway`,
    );
  }

  /** Told when a pilot is free or has gone. */
  onChange: () => void = () => undefined;

  /** Pilots of a partition that are connected and stay. */
  livePilots(partition: string): number {
    // Asked with each job: no list is made of thousands.
    let count = 0;
    for (const one of this.#live.values()) if (one.partition === partition && one.link && !one.leaving) count += 1;
    return count;
  }

  /** Jobs of a partition that wait for a pilot. */
  waitingJobs(partition: string): number {
    return this.#waiting.filter((one) => one.partition === partition).length;
  }

  /** Jobs of a partition that have a pilot. */
  runningJobs(partition: string): number {
    return [...this.#live.values()].filter((one) => one.partition === partition && one.work).length;
  }

  /** Whether a pilot is connected. */
  isLive(id: number): boolean {
    return this.#live.get(id)?.link !== undefined;
  }

  /** Whether a pilot takes jobs, or will when it is back. */
  stays(id: number): boolean {
    return this.#live.get(id)?.leaving === false;
  }

  /** The partition's pilots that had no job since then, the longest idle first. */
  idleSince(partition: string, beforeMs: number): number[] {
    return this.#ofPartition(partition)
      .filter(({ work, idleSinceMs }) => !work && idleSinceMs <= beforeMs)
      .toSorted((a, b) => a.idleSinceMs - b.idleSinceMs)
      .map(({ id }) => id);
  }

  /** Lets a pilot go that has no job. */
  dismiss(id: number, reason: string): void {
    const pilot = this.#live.get(id);
    if (!pilot?.link || pilot.work) return;
    pilot.leaving = true;
    pilot.link.dismiss(reason);
  }

  /** Waits for pilots that an earlier gateway let in. */
  expect(rows: readonly PilotRow[]): void {
    for (const row of rows.filter(({ registered }) => registered)) this.#expected(row, '');
  }

  /** What the scheduler says of a pilot that is not connected: it has ended. */
  gone(id: number): void {
    if (!this.isLive(id)) this.#lost(id, 'its Slurm job has ended');
  }

  /**
   * Lets a pilot in by its one-time token, or again by its session too; a job that it has goes on, if it is still its
   * own. Errors: UNAUTHENTICATED, INVALID_REQUEST, VERSION_MISMATCH: it is then to be dismissed.
   */
  register(asked: Register, link: PilotLink): PilotSession {
    const { logger } = this.#options;
    const { row, device } = this.#welcome(asked);
    const { id, schedulerJob, partition } = row;
    const before = this.#live.get(id);
    // A half-open connection of the same pilot: the younger one counts.
    before?.link?.cut('the same pilot has registered again');
    const work = this.#workThatGoesOn(id, Number(asked.lease));
    const now = this.#nowMs();
    const pilot: LivePilot = {
      ...row,
      link,
      node: plainLine(asked.node).slice(0, 64),
      device: asPartition(device, partition),
      lacks: lacksOf(asked, now),
      missing: missingOf(asked),
      startMs: before?.startMs ?? now,
      idleSinceMs: now,
      secondsLeft: Number(asked.secondsLeft) || undefined,
      leaving: false,
      work,
    };
    this.#live.set(id, pilot);
    this.#devices.set(partition, pilot.device);
    logger.info({ pilot: schedulerJob, node: pilot.node, partition, lease: work?.lease }, 'a pilot has registered');
    link.registered({ lease: work?.lease ?? 0, afterSequence: work?.heard ?? 0 });
    if (work?.stopping) link.stop(work.lease);
    this.#serveWaiting(partition);
    this.onChange();
    return this.#sessionOf(pilot);
  }

  /** Errors: those of register(). */
  #welcome(asked: Register): { row: PilotRow; device: Device } {
    const { table } = this.#options;
    try {
      const row = this.#requireWelcome(asked);
      if (row.use === 'first') table.beginSession(row.id, asked.session);
      return { row, device: asked.device! };
    } catch (error) {
      if (asked.lease > 0n) this.#refuse(undefined, Number(asked.lease));
      this.account.lastRefusal = (error as Error).message;
      throw error;
    }
  }

  #requireWelcome(asked: Register): PilotRow & { use: 'first' | 'again' } {
    const { table, buildId, partitions } = this.#options;
    if (!SESSION.test(asked.session))
      throw new FlashcoreError('INVALID_REQUEST', {}, 'Give a session of 43 characters of base64url');
    const row = admitted(table.admit(asked));
    if (asked.buildId !== buildId)
      throw new FlashcoreError(
        'VERSION_MISMATCH',
        { wanted: buildId, found: asked.buildId },
        `Put the gateway's own bundle on the nodes: the pilot of job ${row.schedulerJob} is of another build`,
      );
    const settings = partitions.find(({ partition }) => partition === row.partition);
    if (!settings || !asked.device)
      throw new FlashcoreError(
        'INVALID_REQUEST',
        { partition: row.partition },
        `Cancel job ${row.schedulerJob}: the fleet file has no partition ${row.partition} any more, or the node no device`,
      );
    requireModel(asked.device, settings);
    return row;
  }

  /** The work of a pilot that comes back with it. A lease that it names and does not have any more is refused. */
  #workThatGoesOn(id: number, lease: number): Work | undefined {
    const pilot = this.#live.get(id);
    clearTimeout(pilot?.givenUp);
    if (pilot?.work?.lease === lease) return pilot.work;
    if (lease > 0) this.#refuse(id, lease);
    this.#lost(id, 'its pilot came back without it');
    return undefined;
  }

  #refuse(id: number | undefined, lease: number): void {
    const pilot = id === undefined ? undefined : this.#live.get(id);
    this.account.refusedEvents += 1;
    this.#options.logger.warn(
      { pilot: pilot?.schedulerJob, lease, current: pilot?.work?.lease },
      'what a pilot said under a lease that has ended was refused',
    );
  }

  #sessionOf(pilot: LivePilot): PilotSession {
    const current = (lease: number): Work | undefined => {
      if (pilot.link && pilot.work?.lease === lease) return pilot.work;
      this.#refuse(pilot.id, lease);
      return undefined;
    };
    return {
      event: (lease, event) => {
        const work = current(lease);
        if (work && this.#follows(pilot, work, event)) this.#take(pilot, work, event);
      },
      giveBack: (lease, reason) => {
        const work = current(lease);
        if (!work) return;
        // What kept it from this job would keep it from the next.
        pilot.leaving = true;
        this.#free(pilot, () => work.end.reject(new LeaseLost(plainLine(reason))));
        pilot.link?.dismiss(plainLine(reason));
      },
      alive: (secondsLeft) => {
        pilot.secondsLeft = secondsLeft || undefined;
        this.#dismissExpiring(pilot);
      },
      leaving: () => {
        pilot.leaving = true;
      },
      lost: (reason) => {
        if (this.#live.get(pilot.id) === pilot) this.#linkBroke(pilot, reason);
      },
    };
  }

  /** Whether an event is the next one. One that was told before, ahead of a cut, is passed over. */
  #follows(pilot: LivePilot, work: Work, { sequence }: JobEvent): boolean {
    const number = Number(sequence);
    // The pilot's own word, where its runner has none.
    if (number === 0) return true;
    if (number <= work.heard) return false;
    if (number === work.heard + 1) return true;
    const reason = `event ${number} of lease ${work.lease} came after ${work.heard}`;
    pilot.link?.cut(reason);
    this.#linkBroke(pilot, reason);
    return false;
  }

  #take(pilot: LivePilot, work: Work, event: JobEvent): void {
    work.heard = Math.max(work.heard, Number(event.sequence));
    if (event.payload.case === 'finished')
      this.#free(pilot, () => work.end.resolve(event.payload.value as JobFinished));
    else this.#relay(pilot, work, event);
  }

  /** Where an event can't be stored the job is the one that ends, not its pilot. */
  #relay(pilot: LivePilot, work: Work, event: JobEvent): void {
    try {
      work.onEvent(event, work.noted);
    } catch (error) {
      pilot.link?.stop(work.lease);
      this.#free(pilot, () => work.end.reject(error));
    }
  }

  /** A pilot whose time is nearly over takes no further job, and its GPU is another's. */
  #dismissExpiring(pilot: LivePilot): void {
    if ((pilot.secondsLeft ?? Infinity) < LEAST_SECONDS_LEFT) this.dismiss(pilot.id, 'its time is nearly over');
  }

  /** A pilot for a job; waits for one that is free. Errors: COMPILER_MISSING, the signal's reason. */
  async take(partition: string, job: string, { signal, wants = () => NO_WANTS }: TakeOptions): Promise<Lease> {
    signal.throwIfAborted();
    const free = this.#freePilot(partition, wants);
    if (free) return this.#newLease(free, job);
    const waiting: Waiting = { partition, job, wants, promise: Promise.withResolvers<Lease>() };
    const leave = (): void => {
      const index = this.#waiting.indexOf(waiting);
      if (index >= 0) this.#waiting.splice(index, 1);
      waiting.promise.reject(signal.reason as Error);
    };
    this.#waiting.push(waiting);
    signal.addEventListener('abort', leave, { once: true });
    try {
      return await waiting.promise.promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  /**
   * The lease that a job had when an earlier gateway ended: its pilot is given some time to come back with it.
   * Undefined where the pilot has ended.
   */
  leaseBefore(row: LeaseRow): Lease | undefined {
    const submitted = this.#options.table.pilots().find(({ id }) => id === row.pilot);
    const pilot = submitted && this.#expected(submitted, row.node);
    if (!pilot || pilot.work) return undefined;
    return this.#leaseOf(pilot, row);
  }

  /** A pilot that an earlier gateway let in: it is away. */
  #expected(row: PilotRow, node: string): LivePilot | undefined {
    const { id, partition } = row;
    const device = this.#devices.get(partition);
    if (!device || this.#live.has(id)) return this.#live.get(id);
    const now = this.#nowMs();
    const pilot: LivePilot = {
      ...row,
      link: undefined,
      node,
      device,
      lacks: '',
      missing: new Set(),
      startMs: now,
      idleSinceMs: now,
      secondsLeft: undefined,
      leaving: false,
      work: undefined,
    };
    this.#live.set(id, pilot);
    this.#waitFor(pilot, 'its pilot did not come back to the gateway, which was started again');
    return pilot;
  }

  #waitFor(pilot: LivePilot, reason: string): void {
    pilot.givenUp = setTimeout(() => {
      if (this.#live.get(pilot.id) === pilot) this.#lost(pilot.id, reason);
    }, this.#options.awayMs ?? AWAY_MS).unref();
  }

  /** Leaves all pilots, with their jobs, to a gateway that is started again. */
  leave(): void {
    const pilots = [...this.#live.values()];
    // Nothing that is still said here is told a pilot.
    this.#live.clear();
    for (const { link, givenUp } of pilots) {
      clearTimeout(givenUp);
      link?.cut('the gateway is started again');
    }
  }

  /** What GetHost says of the cluster. `submitted`: all pilots that have not ended. */
  describe(submitted: readonly PilotRow[], { queued, clients, builds }: QueueState): Fleet {
    return this.account.describe({
      partitions: this.#options.partitions,
      device: (partition) => this.#devices.get(partition),
      live: [...this.#live.values()].map((pilot) => ({ ...pilot, away: !pilot.link })),
      submitted,
      waitingJobs: (partition) => this.waitingJobs(partition) + queued(partition),
      clients,
      builds,
      nowMs: this.#nowMs(),
    });
  }

  #ofPartition(partition: string): LivePilot[] {
    return [...this.#live.values()].filter((one) => one.partition === partition && one.link && !one.leaving);
  }

  /** Errors: COMPILER_MISSING. */
  #freePilot(partition: string, wants: () => NodeWants): LivePilot | undefined {
    const free = this.#ofPartition(partition).filter(
      ({ work, secondsLeft = Infinity }) => !work && secondsLeft >= LEAST_SECONDS_LEFT,
    );
    if (free.every(({ missing }) => missing.size === 0)) return free[0];
    // One that is away may come back.
    const all = [...this.#live.values()].filter((one) => one.partition === partition && !one.leaving);
    return fittest(wants(), { free, all, partition });
  }

  #newLease(pilot: LivePilot, job: string): Lease {
    const number = this.#options.table.lease(job, pilot);
    return this.#leaseOf(pilot, { number, job, heard: 0 });
  }

  #leaseOf(pilot: LivePilot, { number, job, heard }: Pick<LeaseRow, 'number' | 'job' | 'heard'>): Lease {
    const isNew = pilot.link !== undefined;
    const end = Promise.withResolvers<JobFinished>();
    // The pilot may be lost before its job runs.
    end.promise.catch(() => undefined);
    const work: Work = {
      lease: number,
      job,
      sinceMs: this.#nowMs(),
      heard,
      noted: () => this.#options.table.heard(number, work.heard),
      onEvent: () => undefined,
      stopping: false,
      end,
    };
    pilot.work = work;
    return {
      number,
      node: pilot.node,
      device: pilot.device,
      run: async (assignment, { onEvent, signal }) => {
        work.onEvent = onEvent;
        // Another object stands for the pilot once it has come back.
        const holder = (): LivePilot | undefined => {
          const one = this.#live.get(pilot.id);
          return one?.work === work ? one : undefined;
        };
        let unanswered: NodeJS.Timeout | undefined;
        const stop = (): void => {
          work.stopping = true;
          holder()?.link?.stop(number);
          unanswered ??= setTimeout(() => this.#giveUp(holder()), STOP_WITHIN_MS);
        };
        if (isNew) holder()?.link?.assign({ ...assignment, lease: BigInt(number) } as Assignment);
        if (signal.aborted) stop();
        signal.addEventListener('abort', stop);
        try {
          return await end.promise;
        } finally {
          clearTimeout(unanswered);
          signal.removeEventListener('abort', stop);
        }
      },
    };
  }

  /** A node that does not end its job within what a stopped job has is lost, with its pilot. */
  #giveUp(pilot: LivePilot | undefined): void {
    if (!pilot) return;
    pilot.link?.dismiss('it did not stop its job');
    this.#lost(pilot.id, 'it did not stop its job');
  }

  #free(pilot: LivePilot, tell: () => void): void {
    const now = this.#nowMs();
    if (pilot.work) this.account.spend(pilot.partition, { usedMs: now - pilot.work.sinceMs });
    pilot.work = undefined;
    pilot.idleSinceMs = now;
    tell();
    this.#dismissExpiring(pilot);
    this.#serveWaiting(pilot.partition);
    this.onChange();
  }

  /** In the order in which they came; who waits for a better node keeps nobody. */
  #serveWaiting(partition: string): void {
    for (const waiting of this.#waiting.filter((one) => one.partition === partition)) {
      if (!this.#ofPartition(partition).some(({ work }) => !work)) return;
      try {
        const pilot = this.#freePilot(partition, waiting.wants);
        if (!pilot) continue;
        waiting.promise.resolve(this.#newLease(pilot, waiting.job));
      } catch (error) {
        waiting.promise.reject(error);
      }
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
    }
  }

  /** A pilot with a job has some time to come back with it; one without is as good as another. */
  #linkBroke(pilot: LivePilot, reason: string): void {
    if (!pilot.link) return;
    if (!pilot.work || pilot.leaving) return this.#lost(pilot.id, reason);
    this.#options.logger.warn({ pilot: pilot.schedulerJob, lease: pilot.work.lease, reason }, 'a pilot is away');
    pilot.link = undefined;
    this.#waitFor(pilot, reason);
    this.onChange();
  }

  #lost(id: number, reason: string): void {
    const pilot = this.#live.get(id);
    if (!pilot) return;
    clearTimeout(pilot.givenUp);
    this.#live.delete(id);
    const now = this.#nowMs();
    this.account.spend(pilot.partition, { heldMs: now - pilot.startMs });
    const { work } = pilot;
    // Who waited for it may not have to any more.
    queueMicrotask(() => this.#serveWaiting(pilot.partition));
    if (!work) return;
    this.account.spend(pilot.partition, { usedMs: now - work.sinceMs });
    pilot.work = undefined;
    this.account.lostLeases += 1;
    this.#options.logger.warn(
      { pilot: pilot.schedulerJob, job: work.job, lease: work.lease, reason },
      'a lease was lost',
    );
    work.end.reject(new LeaseLost(reason));
  }
}
