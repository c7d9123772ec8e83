import { FlashcoreError, type Device, type Fleet, type JobEvent, type JobFinished } from '@flashcore/shared/contract';
import type { Assignment, Register } from '@flashcore/shared/fleet';
import { plainLine } from '@flashcore/shared/text';
import type { Logger } from '../log.ts';
import { FleetTable, type PilotRow } from '../store/fleet-table.ts';
import { FleetAccount } from './fleet-account.ts';
import type { PartitionSettings } from './fleet-file.ts';
import { asPartition, expectedDevice } from './partition-devices.ts';
import { admitted, lacksOf, requireModel } from './pilot-admission.ts';
import { LeaseLost, type Lease, type PilotLink, type PilotSession } from './pilot-link.ts';

interface LivePilot extends PilotRow {
  link: PilotLink;
  node: string;
  device: Device;
  lacks: string;
  startMs: number;
  idleSinceMs: number;
  secondsLeft: number | undefined;
  leaving: boolean;
  work: Work | undefined;
}

interface Work {
  lease: number;
  job: string;
  sinceMs: number;
  onEvent: (event: JobEvent) => void;
  end: PromiseWithResolvers<JobFinished>;
}

interface Waiting {
  partition: string;
  job: string;
  promise: PromiseWithResolvers<Lease>;
}

export interface PoolOptions {
  partitions: readonly PartitionSettings[];
  table: FleetTable;
  /** Digest of the code that pilots must have. */
  buildId: string;
  logger: Logger;
  nowMs?: () => number;
}

/** A pilot whose scheduler ends it sooner takes no further job. */
const LEAST_SECONDS_LEFT = 60;
/** Less than a stopped job has (STOP_GRACE_MS), so that the partition never counts as held. */
const STOP_WITHIN_MS = 4_000;

/** The pilots of a gateway: who may register, which has which job, and what becomes of a job whose pilot is lost. */
export class PilotPool {
  readonly #options: PoolOptions;
  readonly #nowMs: () => number;
  readonly #live = new Map<string, LivePilot>();
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

  /** Pilots of a partition that have registered and stay. */
  livePilots(partition: string): number {
    return this.#ofPartition(partition).length;
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
  isLive(schedulerJob: string): boolean {
    return this.#live.has(schedulerJob);
  }

  /** Whether a pilot is connected and takes jobs. */
  stays(schedulerJob: string): boolean {
    return this.#live.get(schedulerJob)?.leaving === false;
  }

  /** The partition's pilots that had no job since then, the longest idle first. */
  idleSince(partition: string, beforeMs: number): string[] {
    return this.#ofPartition(partition)
      .filter(({ work, idleSinceMs }) => !work && idleSinceMs <= beforeMs)
      .toSorted((a, b) => a.idleSinceMs - b.idleSinceMs)
      .map(({ schedulerJob }) => schedulerJob);
  }

  /** Lets a pilot go that has no job. */
  dismiss(schedulerJob: string, reason: string): void {
    const pilot = this.#live.get(schedulerJob);
    if (!pilot || pilot.work) return;
    pilot.leaving = true;
    pilot.link.dismiss(reason);
  }

  /**
   * Lets a pilot in by its one-time token, or again by its session. Errors: UNAUTHENTICATED, VERSION_MISMATCH: it is
   * then to be dismissed.
   */
  register(asked: Register, link: PilotLink): PilotSession {
    const { table, logger, buildId } = this.#options;
    const row = admitted(table.admit(asked.token));
    if (asked.buildId !== buildId)
      throw new FlashcoreError(
        'VERSION_MISMATCH',
        { wanted: buildId, found: asked.buildId },
        `Put the gateway's own bundle on the nodes: the pilot of job ${row.schedulerJob} is of another build`,
      );
    const settings = this.#options.partitions.find(({ partition }) => partition === row.partition);
    if (!settings || !asked.device)
      throw new FlashcoreError(
        'INVALID_REQUEST',
        { partition: row.partition },
        `Cancel job ${row.schedulerJob}: the fleet file has no partition ${row.partition} any more, or the node no device`,
      );
    requireModel(asked.device, settings);
    // A half-open connection of the same pilot: the younger one counts.
    this.#live.get(row.schedulerJob)?.link.dismiss('the same pilot has registered again');
    this.#lost(row.schedulerJob, 'the pilot has registered again');
    const session = FleetTable.secret();
    table.beginSession(row.schedulerJob, session);
    const now = this.#nowMs();
    const pilot: LivePilot = {
      ...row,
      link,
      node: plainLine(asked.node).slice(0, 64),
      device: asPartition(asked.device, row.partition),
      lacks: lacksOf(asked, now),
      startMs: now,
      idleSinceMs: now,
      secondsLeft: Number(asked.secondsLeft) || undefined,
      leaving: false,
      work: undefined,
    };
    this.#live.set(row.schedulerJob, pilot);
    this.#devices.set(row.partition, pilot.device);
    logger.info({ pilot: row.schedulerJob, node: pilot.node, partition: row.partition }, 'a pilot has registered');
    link.registered(session);
    this.#serveWaiting(row.partition);
    this.onChange();
    return this.#sessionOf(pilot);
  }

  #sessionOf(pilot: LivePilot): PilotSession {
    const current = (lease: number): Work | undefined => {
      if (pilot.work?.lease === lease) return pilot.work;
      this.account.refusedEvents += 1;
      this.#options.logger.warn(
        { pilot: pilot.schedulerJob, lease, current: pilot.work?.lease },
        'what a pilot said under a lease that has ended was refused',
      );
      return undefined;
    };
    return {
      event: (lease, event) => {
        const work = current(lease);
        if (!work) return;
        if (event.payload.case === 'finished')
          this.#free(pilot, () => work.end.resolve(event.payload.value as JobFinished));
        else this.#relay(pilot, work, event);
      },
      giveBack: (lease, reason) => {
        const work = current(lease);
        if (!work) return;
        // What kept it from this job would keep it from the next.
        pilot.leaving = true;
        this.#free(pilot, () => work.end.reject(new LeaseLost(plainLine(reason))));
        pilot.link.dismiss(plainLine(reason));
      },
      alive: (secondsLeft) => {
        pilot.secondsLeft = secondsLeft || undefined;
        this.#dismissExpiring(pilot);
      },
      leaving: () => {
        pilot.leaving = true;
      },
      lost: (reason) => {
        if (this.#live.get(pilot.schedulerJob) === pilot) this.#lost(pilot.schedulerJob, reason);
      },
    };
  }

  /** Where an event can't be stored the job is the one that ends, not its pilot. */
  #relay(pilot: LivePilot, work: Work, event: JobEvent): void {
    try {
      work.onEvent(event);
    } catch (error) {
      pilot.link.stop(work.lease);
      this.#free(pilot, () => work.end.reject(error));
    }
  }

  /** A pilot whose time is nearly over takes no further job, and its GPU is another's. */
  #dismissExpiring(pilot: LivePilot): void {
    if ((pilot.secondsLeft ?? Infinity) < LEAST_SECONDS_LEFT)
      this.dismiss(pilot.schedulerJob, 'its time is nearly over');
  }

  /** A pilot for a job; waits for one that is free. Errors: the signal's reason. */
  async take(partition: string, job: string, signal: AbortSignal): Promise<Lease> {
    signal.throwIfAborted();
    const free = this.#freePilot(partition);
    if (free) return this.#leaseOf(free, job);
    const waiting: Waiting = { partition, job, promise: Promise.withResolvers<Lease>() };
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

  /** Lets all pilots go: the gateway ends. */
  close(): void {
    for (const { schedulerJob, link } of [...this.#live.values()]) {
      link.dismiss('the gateway ends');
      this.#lost(schedulerJob, 'the gateway ends');
    }
  }

  /** What GetHost says of the cluster. `submitted`: all pilots that have not ended; `queued`: jobs before the pool. */
  describe(submitted: readonly PilotRow[], queued: (partition: string) => number): Fleet {
    return this.account.describe({
      partitions: this.#options.partitions,
      device: (partition) => this.#devices.get(partition),
      live: [...this.#live.values()],
      submitted,
      waitingJobs: (partition) => this.waitingJobs(partition) + queued(partition),
      nowMs: this.#nowMs(),
    });
  }

  #ofPartition(partition: string): LivePilot[] {
    return [...this.#live.values()].filter((one) => one.partition === partition && !one.leaving);
  }

  #freePilot(partition: string): LivePilot | undefined {
    return this.#ofPartition(partition).find(
      ({ work, secondsLeft = Infinity }) => !work && secondsLeft >= LEAST_SECONDS_LEFT,
    );
  }

  #leaseOf(pilot: LivePilot, job: string): Lease {
    const number = this.#options.table.lease(job, pilot);
    const end = Promise.withResolvers<JobFinished>();
    // The pilot may be lost before its job runs.
    end.promise.catch(() => undefined);
    pilot.work = { lease: number, job, sinceMs: this.#nowMs(), onEvent: () => undefined, end };
    return {
      number,
      node: pilot.node,
      device: pilot.device,
      run: async (assignment, { onEvent, signal }) => {
        let unanswered: NodeJS.Timeout | undefined;
        const stop = (): void => {
          pilot.link.stop(number);
          unanswered ??= setTimeout(() => this.#giveUp(pilot, number), STOP_WITHIN_MS);
        };
        if (pilot.work?.lease === number) {
          pilot.work.onEvent = onEvent;
          pilot.link.assign({ ...assignment, lease: BigInt(number) } as Assignment);
          if (signal.aborted) stop();
        }
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
  #giveUp(pilot: LivePilot, lease: number): void {
    if (pilot.work?.lease !== lease) return;
    pilot.link.dismiss('it did not stop its job');
    this.#lost(pilot.schedulerJob, 'it did not stop its job');
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

  #serveWaiting(partition: string): void {
    for (;;) {
      const index = this.#waiting.findIndex((one) => one.partition === partition);
      const pilot = index < 0 ? undefined : this.#freePilot(partition);
      if (!pilot) return;
      const [waiting] = this.#waiting.splice(index, 1);
      try {
        waiting!.promise.resolve(this.#leaseOf(pilot, waiting!.job));
      } catch (error) {
        waiting!.promise.reject(error);
      }
    }
  }

  #lost(schedulerJob: string, reason: string): void {
    const pilot = this.#live.get(schedulerJob);
    if (!pilot) return;
    this.#live.delete(schedulerJob);
    const now = this.#nowMs();
    this.account.spend(pilot.partition, { heldMs: now - pilot.startMs });
    const { work } = pilot;
    if (!work) return;
    this.account.spend(pilot.partition, { usedMs: now - work.sinceMs });
    pilot.work = undefined;
    this.account.lostLeases += 1;
    this.#options.logger.warn({ pilot: schedulerJob, job: work.job, lease: work.lease, reason }, 'a lease was lost');
    work.end.reject(new LeaseLost(reason));
  }
}
